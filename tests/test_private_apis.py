"""Names of other packages that are not public, but that we use. An upgrade that removes one fails here by its name.

Each of them saves milliseconds of a command, or bounds a wait that has no public bound.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import psycopg
from aiohttp.web_protocol import RequestHandler

from grassq import home
from grassq.net import encoding


def loads(code: str, module: str) -> bool:
    """Whether a fresh interpreter has loaded a module after running the code."""
    program = f"import sys; {code}; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout == "True\n"


def test_os_environ_data_holds_the_environment_as_bytes() -> None:
    """`home.environment` copies it, without decoding and encoding every variable."""
    assert vars(os.environ)["_data"] == dict(os.environb) == home.environment()


def test__socket_is_the_part_of_socket_written_in_c() -> None:
    """`net.http` imports it alone: `socket` costs 9 ms of an enqueue."""
    import _socket
    import socket

    assert issubclass(socket.socket, _socket.socket)
    assert not loads("import _socket", "socket")


def test__ssl_makes_a_connection_without_ssl() -> None:
    """`net.tls` imports it alone: `ssl` costs 12 ms of an enqueue to a broker."""
    import _ssl
    import ssl

    context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
    assert issubclass(ssl.SSLContext, _ssl._SSLContext)
    assert context.options == ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).options
    assert ssl.TLSVersion(_ssl.PROTO_TLSv1_2) is ssl.TLSVersion.TLSv1_2
    assert hasattr(context, "_wrap_socket")
    assert not loads("import _ssl", "ssl")


def test__json_writes_and_reads_without_json() -> None:
    """`net.encoding` uses `encode_basestring_ascii` and `make_scanner`, and falls back to `json` without them."""
    import _json

    assert vars(encoding)["quote"] is _json.encode_basestring_ascii
    source = f"sys.path.insert(0, {os.path.dirname(home.__file__) + '/..'!r})"  # noqa: PTH120
    used = "from grassq.net import encoding; assert encoding.parse(b'{\"a\": [1, null]}') == {'a': [1, None]}"
    assert not loads(f"{source}; {used}", "json")


def test_aiohttp_set_parser_gives_a_parser_the_rest_of_a_connection() -> None:
    """`web.listen.abort.write_until_hangup` hears through it that a client hung up, as a WebSocket does."""
    assert list(inspect.signature(RequestHandler.set_parser).parameters)[:2] == ["self", "parser"]


def test_psycopg_connection_wait_drives_every_exchange() -> None:
    """`store.postgres_session.Session.wait` bounds it: a server that hangs counts as gone."""
    assert list(inspect.signature(psycopg.Connection.wait).parameters)[:2] == ["self", "gen"]
    assert "self.wait(" in inspect.getsource(psycopg.Connection.commit)


def test_textual_hands_an_unexpected_error_to_handle_exception() -> None:
    """`cli.top.app.TopApp` overrides it: the terminal is restored, and one line says where the details are."""
    from textual.app import App

    assert list(inspect.signature(App._handle_exception).parameters) == ["self", "error"]
    assert list(inspect.signature(App._close_messages_no_wait).parameters) == ["self"]
