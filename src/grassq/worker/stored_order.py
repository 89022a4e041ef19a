"""The order of an attempt as its run dir keeps it, so that a broker that has forgotten it can be told."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq.core.job_options import Pairs
from grassq.core.messages import Start
from grassq.run import rundir


class _Kept(Struct, frozen=True):
    """An order whose environment is written as places in the environment the job was given, where it has the same."""

    start: Start
    env: tuple[int | tuple[bytes, bytes], ...]


class _Written(Struct):
    """The same with the places as they are written: jobs of one sender share them."""

    start: Start
    env: msgspec.Raw


_decode = msgspec.msgpack.Decoder(_Kept).decode
_encode = msgspec.msgpack.Encoder().encode


def places(sent: Pairs, given: Pairs) -> msgspec.Raw:
    """Where each pair of an order's environment is in the one its job was given: a place, or what is not there."""
    known = {pair: place for place, pair in enumerate(given)}
    return msgspec.Raw(_encode([known.get(pair, pair) for pair in sent]))


def keep(start: Start, places: msgspec.Raw) -> str:
    """What to write beside the environment that has these places, for `recall` to read."""
    return rundir.encode_order(_encode(_Written(replace(start, env=()), places)))


def recall(path: str) -> Start | None:
    """The order the attempt at `path` came with; None when its run dir does not say. OSError: not now."""
    found = rundir.read_order(path)
    if found is None:
        return None
    order, env = found
    try:
        kept = _decode(order)
        return replace(kept.start, env=tuple(env[pair] if isinstance(pair, int) else pair for pair in kept.env))
    except (msgspec.MsgspecError, IndexError):
        return None
