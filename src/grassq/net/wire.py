"""How words, keys and addresses are written on the wire, without `json`: an enqueue must not wait for its import."""

from __future__ import annotations

import os
from binascii import b2a_base64

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # an interpreter without the C helper
    from json.encoder import encode_basestring_ascii as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["GUEST_CWD", "GUEST_UMASK", "enqueue_body", "new_key", "percent", "query", "quote", "word", "word_value"]

#: Sent to a broker on another machine instead of the sender's own; with no environment. A job there gets the worker's.
GUEST_CWD = b"/"
GUEST_UMASK = 0o022

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def word(value: bytes) -> str:
    """One word as JSON text, what `json.dumps` makes of its `word_value`."""
    written = word_value(value)
    return quote(written) if isinstance(written, str) else '{"b64":' + quote(written["b64"]) + "}"


def word_value(value: bytes) -> str | dict[str, str]:
    """One word as a JSON value: a string if it is UTF-8, else its base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": b2a_base64(value, newline=False).decode()}


def new_key() -> str:
    """A name for one changing request; repeating the request under it changes nothing twice."""
    return os.urandom(16).hex()


def enqueue_body(
    words: Iterable[bytes], *, cwd: bytes, env: Mapping[bytes, bytes], umask: int, key: str, verb: str = "enqueue"
) -> bytes:
    """The body of POST /v1/enqueue."""
    parts = (
        '{"words":[',
        ",".join([word(each) for each in words]),
        '],"cwd":',
        word(cwd),
        ',"env":[',
        ",".join([f"[{word(name)},{word(value)}]" for name, value in env.items()]),
        f'],"umask":{umask},"key":"{key}","verb":"{verb}"}}',
    )
    return "".join(parts).encode("ascii")


def percent(text: str) -> str:
    """`text` as a part of an address."""
    raw = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw])


def query(pairs: Iterable[tuple[str, object]]) -> str:
    """`?name=value&...` for an address; a value of None is left out."""
    text = "&".join([f"{name}={percent(str(value))}" for name, value in pairs if value is not None])
    return "?" + text if text else ""
