"""Seals on orders: what a worker says it was once told is believed only if this store's broker has told it so.

Else whoever controls one worker could invent a job, and have the broker start it on every other.
"""

from __future__ import annotations

import hmac

import msgspec
from msgspec.structs import replace

from grassq.core.messages import Start

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Start).decode


def sealed(start: Start, key: bytes) -> Start:
    """The order with the broker's mark."""
    return replace(start, seal=_mark(start, key))


def is_ours(start: Start, key: bytes) -> bool:
    """Whether a broker on this store gave exactly this order."""
    return hmac.compare_digest(start.seal, _mark(start, key))


def _mark(start: Start, key: bytes) -> bytes:
    # As its worker reads it: what was 10 here is 10.0 there.
    read = _decode(_encode(replace(start, seal=b"")))
    return hmac.digest(key, _encode(read), "sha256")
