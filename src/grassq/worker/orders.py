"""The order of an attempt as its run dir keeps it, so that a broker that has forgotten it can be told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq.core.messages import Start
from grassq.run import rundir


class _Kept(Struct, frozen=True):
    """An order whose environment is written as places in the environment the job was given, where it has the same."""

    start: Start
    env: tuple[int | tuple[bytes, bytes], ...]


_decode = msgspec.msgpack.Decoder(_Kept).decode


def keep(start: Start, env: Mapping[bytes, bytes]) -> str:
    """What to write beside `env`, the job's own environment, for `recall` to read."""
    places = {pair: place for place, pair in enumerate(env.items())}
    kept = _Kept(replace(start, env=()), tuple(places.get(pair, pair) for pair in start.env))
    return rundir.encode_order(msgspec.msgpack.encode(kept))


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
