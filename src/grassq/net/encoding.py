"""Words, keys and addresses on the wire, without `json`: an enqueue must not wait for its import."""

from __future__ import annotations

import os
from binascii import b2a_base64

from grassq import __version__

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # an interpreter without the C helper
    from json.encoder import encode_basestring_ascii as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from grassq.home import Sender

#: Bytes of the lines of one submission. In any encoding and with the environment this stays below the daemon's limit of
#: 64 MiB.
BYTES_MAX = 45 << 20
#: States that a job never leaves.
FINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})

_BLANKS = " \t\r\n"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def word(value: bytes) -> str:
    """Return one word as JSON text, as `json.dumps` writes its `word_value`."""
    written = word_value(value)
    return quote(written) if isinstance(written, str) else '{"b64":' + quote(written["b64"]) + "}"


def word_value(value: bytes) -> str | dict[str, str]:
    """Return one word as a JSON value: a string if it is UTF-8, else its base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": b2a_base64(value, newline=False).decode()}


def text(value: bytes) -> str:
    """Return one word as `word` does, or as base64 if the text would be much longer."""
    written = word(value)
    if 3 * len(written) <= 4 * len(value) + 1024:
        return written
    return '{"b64":"' + b2a_base64(value, newline=False).decode() + '"}'


def parse(data: bytes) -> object:
    """Return the value of a JSON text; raise ValueError if it is none. Without `json`, which is slow to load."""
    written = data.decode()
    how: Any = _ScannerOptions()
    try:
        from _json import make_scanner

        value, end = make_scanner(how)(written, len(written) - len(written.lstrip(_BLANKS)))
        if not written[end:].strip(_BLANKS):
            return value
    except (ImportError, StopIteration, SystemError):
        # An interpreter without the C helper, or no JSON: the helper alone cannot say what is wrong.
        pass
    import json

    return json.loads(written)


class _ScannerOptions:
    """The C helper's options, the same as in `json.loads`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def new_key() -> str:
    """Return a key for one changing request; the daemon carries out a repeated request with the same key only once."""
    return os.urandom(16).hex()


def enqueue_body(
    words: Iterable[bytes],
    sender: Sender,
    key: str,
    verb: str = "enqueue",
    lines: bytes | None = None,
    sent: Iterable[str] | None = None,
    parameters: str = "",
    more: str = "",
) -> bytes:
    """Return the body of POST /v1/enqueue; `lines` is the input of --stdin, `sent` has the manifests of --send.

    `parameters` are those of a sweep, in JSON; `more` are other members of the body.
    """
    parts = (
        '{"words":[',
        ",".join([word(each) for each in words]),
        '],"cwd":',
        word(sender.cwd),
        ',"env":[',
        ",".join([f"[{word(name)},{word(value)}]" for name, value in sender.env.items()]),
        f'],"umask":{sender.umask},"key":"{key}","verb":"{verb}"',
        "" if sent is None else ',"sent":[' + ",".join([quote(id_) for id_ in sent]) + "]",
        f',"parameters":{parameters}' if parameters else "",
        f",{more}" if more else "",
        "}" if lines is None else ',"lines":' + text(lines) + "}",
    )
    return "".join(parts).encode("ascii")


def percent(text: str) -> str:
    """Return `text` percent-encoded."""
    raw = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw])


def query(pairs: Iterable[tuple[str, object]]) -> str:
    """Return `?name=value&...`; a value of None is left out."""
    text = "&".join([f"{name}={percent(str(value))}" for name, value in pairs if value is not None])
    return "?" + text if text else ""


def version_warning(daemon: str | None) -> str:
    """Return a warning if the daemon is of another release than this command, else ""."""
    if daemon in (None, __version__):
        return ""
    return f"the daemon is version {daemon}, this command is {__version__}; `grass restart` (jobs keep running)"
