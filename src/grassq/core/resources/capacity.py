"""What a machine has, and what a queue may use of it: devices with ids, or pools that are plain sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from grassq.core.resources.amounts import ONE, amount_text, check_count, check_resource_name, parse_amount
from grassq.core.syntax.resource_names import POOLS, VRAM, VRAM_OF
from grassq.core.syntax.slots import DEVICES_MAX, check_device_id, device_order
from grassq.errors import BadInput, Refused


class Device(Struct, frozen=True):
    """One device: its id, what it is worth, and its memory (0 = not known)."""

    id: str
    worth: int = ONE
    vram: int = 0


class Pool(Struct, frozen=True, tag="pool"):
    """A sum without ids, such as memory."""

    amount: int


class Devices(Struct, frozen=True, tag="devices"):
    """Distinct devices, in the order of their ids."""

    devices: Annotated[tuple[Device, ...], Meta(max_length=DEVICES_MAX)]


class DeviceCount(Struct, frozen=True, tag="count"):
    """The first n devices of the machine (devices 0 to n-1 where none are known)."""

    n: Annotated[int, Meta(ge=0, le=DEVICES_MAX)]


class DeviceIds(Struct, frozen=True, tag="ids"):
    """Exactly these devices."""

    ids: Annotated[tuple[str, ...], Meta(max_length=DEVICES_MAX)]


Supply = Pool | Devices
Limit = Pool | Devices | DeviceCount | DeviceIds
Capacity = dict[str, Supply]
Limits = dict[str, Limit]


def parse_limits(values: Mapping[str, object]) -> Limits:
    """Read a capacity such as {"gpu": 4, "cpu": 16}, {"gpu": [2, 3]} or {"ram": {"pool": 512}}."""
    check_count(values)
    limits: Limits = {}
    for raw, value in values.items():
        name = check_resource_name(raw)
        if name == VRAM:
            raise BadInput(f"{VRAM} belongs to a device: write {VRAM_OF}: {{'0': {{{VRAM}: \"24G\"}}}}")
        if name in limits:
            raise BadInput(f"{name} is given twice")
        limits[name] = _parse_limit(name, value)
    return limits


def _parse_limit(name: str, value: object) -> Limit:
    if name in POOLS:
        amount = value.get("pool") if isinstance(value, dict) and set(value) == {"pool"} else value
        return Pool(parse_amount(name, amount))
    if isinstance(value, list):
        return DeviceIds(_device_ids(name, value))
    if isinstance(value, dict):
        if set(value) == {"pool"}:
            return Pool(parse_amount(name, value["pool"]))
        return Devices(tuple(_device(name, key, worth) for key, worth in _sorted_items(name, value)))
    amount = parse_amount(name, value)
    if amount % ONE:
        raise BadInput(f"{name}: a capacity counts whole devices, not {value!r}; a sum is {{{name}: {{pool: n}}}}")
    if amount // ONE > DEVICES_MAX:
        raise BadInput(f"{name}: more than {DEVICES_MAX} devices; a sum is written {{{name}: {{pool: {value}}}}}")
    return DeviceCount(amount // ONE)


def _device_ids(name: str, values: list[object]) -> tuple[str, ...]:
    ids = [check_device_id(name, value) for value in values]
    if len(set(ids)) != len(ids):
        raise BadInput(f"{name}: a list names distinct devices; amounts go in an object such as {{'0': 512}}")
    if len(ids) > DEVICES_MAX:
        raise BadInput(f"{name}: more than {DEVICES_MAX} devices")
    return tuple(sorted(ids, key=device_order))


def _sorted_items(name: str, value: dict[str, object]) -> list[tuple[str, object]]:
    if len(value) > DEVICES_MAX:
        raise BadInput(f"{name}: more than {DEVICES_MAX} devices")
    return sorted(value.items(), key=lambda item: device_order(check_device_id(name, item[0])))


def _device(name: str, key: str, value: object) -> Device:
    device = check_device_id(name, key)
    if isinstance(value, dict):
        unknown = set(value) - {"worth", "vram"}
        if unknown:
            raise BadInput(f"{name} {device}: {sorted(unknown)[0]!r} is not known; a device has worth and vram")
        worth = parse_amount(name, value.get("worth", 1))
        return Device(device, worth, parse_amount(VRAM, value.get("vram", 0)))
    return Device(device, parse_amount(name, value))


def supply_of(limit: Limit) -> Supply:
    """Return what a limit declares on a machine that does not have the resource otherwise."""
    match limit:
        case DeviceCount(n):
            return Devices(tuple(Device(str(i)) for i in range(n)))
        case DeviceIds(ids):
            return Devices(tuple(Device(i) for i in ids))
        case _:
            return limit


def capacity_text(capacity: Capacity) -> str:
    """Return a capacity in words: cpu 16, mem 65536, gpu 2."""
    counts = ((n, s.amount if isinstance(s, Pool) else len(s.devices) * ONE) for n, s in capacity.items())
    return ", ".join(f"{name} {amount_text(amount)}" for name, amount in counts)


def union(first: Supply, *others: Supply) -> Supply:
    """Join declarations: all devices of all of them, the largest of pools; the first says which of the two it is."""
    if isinstance(first, Pool):
        return Pool(max(each.amount for each in (first, *others) if isinstance(each, Pool)))
    merged: dict[str, Device] = {}
    for d in (d for each in (first, *others) if isinstance(each, Devices) for d in each.devices):
        known = merged.get(d.id, d)
        merged[d.id] = Device(d.id, max(d.worth, known.worth), max(d.vram, known.vram))
    return Devices(tuple(sorted(merged.values(), key=lambda d: device_order(d.id))))


def bind(name: str, limit: Limit, supply: Supply) -> Supply:
    """Return the part of a machine's supply that a limit allows; refuse devices the machine lacks."""
    match limit, supply:
        case Pool(), Pool():
            return Pool(min(limit.amount, supply.amount))
        case DeviceCount(n), Pool():
            return Pool(min(n * ONE, supply.amount))
        case DeviceCount(n), Devices():
            return Devices(supply.devices[:n])
        case DeviceIds(ids), Devices():
            return Devices(_named(name, ids, supply))
        case Devices(), Devices():
            named = _named(name, [d.id for d in limit.devices], supply)
            worths = {d.id: d.worth for d in limit.devices}
            return Devices(tuple(Device(d.id, min(d.worth, worths[d.id]), d.vram) for d in named))
        case _:
            kind = "a pool" if isinstance(supply, Pool) else "devices"
            raise Refused(f"{name} is {kind} on this machine, and the queue's limit is of the other kind")


def _named(name: str, ids: Iterable[str], supply: Devices) -> tuple[Device, ...]:
    known = {d.id: d for d in supply.devices}
    missing = [i for i in ids if i not in known]
    if missing:
        have = ", ".join(known) or "none"
        raise Refused(f"this machine has no {name} {missing[0]}; it has {have}")
    return tuple(known[i] for i in ids)
