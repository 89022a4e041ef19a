"""Amounts, requests and capacities: what a job asks for and what a machine has.

An amount is an integer count of millionths, so ten requests of 0.1 fill a device exactly. Memory and disk count in MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Annotated

from msgspec import Meta, Struct

from grassq.core.names import shown
from grassq.core.resources.device_ids import DEVICES_MAX, check_device_id, device_order
from grassq.core.syntax.options import is_resource_name
from grassq.errors import BadInput, Refused

ONE = 1_000_000
UNITS_MAX = 10**9
POOLS = frozenset({"cpu", "mem", "disk"})
SIZES = frozenset({"mem", "disk", "vram"})
VRAM = "vram"
#: Found by asking drivers, which takes a while: until they have answered nobody knows what there is.
DETECTED = frozenset({"gpu"})
#: The devices whose memory `vram` counts.
VRAM_OF = "gpu"

_SIZE = re.compile(r"(?P<number>[^A-Za-z]*)(?P<unit>[KMGT])(i?B)?", re.IGNORECASE | re.ASCII)
_FINEST = Decimal(1) / ONE
_MIB = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024) ** 2}

#: What a job asks for: sorted (name, amount) pairs, so equal requests are equal values.
Request = tuple[tuple[str, int], ...]
#: What an attempt holds: an amount of a pool, or an amount of each device.
Allocation = dict[str, int | dict[str, int]]


class Device(Struct, frozen=True):
    """One thing that can be held: an id, what it is worth, and the memory it carries (0 = not known)."""

    id: str
    worth: int = ONE
    vram: int = 0


class Pool(Struct, frozen=True, tag="pool"):
    """A fungible sum, such as memory."""

    amount: int


class Devices(Struct, frozen=True, tag="devices"):
    """Distinct devices, in the order of their ids."""

    devices: Annotated[tuple[Device, ...], Meta(max_length=DEVICES_MAX)]


class DeviceCount(Struct, frozen=True, tag="count"):
    """The first n devices there are (or devices 0 to n-1 where none are known)."""

    n: Annotated[int, Meta(ge=0, le=DEVICES_MAX)]


class DeviceIds(Struct, frozen=True, tag="ids"):
    """Exactly these devices."""

    ids: Annotated[tuple[str, ...], Meta(max_length=DEVICES_MAX)]


Supply = Pool | Devices
Limit = Pool | Devices | DeviceCount | DeviceIds
Capacity = dict[str, Supply]
Limits = dict[str, Limit]


def check_name(name: str) -> str:
    """Fold a resource name to lower case, or say why it is none."""
    if not is_resource_name(name):
        raise BadInput(f"{shown(name)} is no resource name; use letters, digits and _, and no option's name")
    return name.lower()


def parse_amount(name: str, value: object) -> int:
    """Read an amount such as 0.5, "2.5" or "16G" (sizes only) as millionths."""
    number, unit = _decimal(name, value)
    if not number.is_finite() or number < 0:
        raise BadInput(f"{name}: {value!r} is no amount; it must be a finite number, 0 or more")
    # Comparing is exact where multiplying would overflow (1e9999999) or round.
    if number > UNITS_MAX / unit:
        raise BadInput(f"{name}: {value!r} is more than {UNITS_MAX:,}, the most Grass counts")
    if name in SIZES:
        return int((number * unit * ONE).to_integral_value(rounding=ROUND_CEILING))
    if number != number.quantize(_FINEST):
        raise BadInput(f"{name}: {value!r} is finer than a millionth; use at most six decimals")
    return int(number * ONE)


def _decimal(name: str, value: object) -> tuple[Decimal, Decimal]:
    """The number as written, and the size of its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(f"{name}: {value!r} is no amount; write a number such as 1 or 0.5")
    text = value.strip() if isinstance(value, str) else repr(value)
    factor = Decimal(1)
    size = _SIZE.fullmatch(text) if name in SIZES else None
    if size:
        text, factor = size["number"], _MIB[size["unit"].upper()]
    if len(text) > 64 or "_" in text:
        raise BadInput(f"{name}: {text[:64]!r} is no amount; write a number such as 1 or 0.5")
    try:
        return Decimal(text), factor
    except InvalidOperation:
        hint = "a number of MiB, or 512M, 16G" if name in SIZES else "a number such as 1 or 0.5"
        raise BadInput(f"{name}: {value!r} is no amount; write {hint}") from None


def parse_request(amounts: Mapping[str, object]) -> Request:
    """Read what a job asks for; amounts of 0 ask for nothing."""
    request: dict[str, int] = {}
    for raw, value in amounts.items():
        name = check_name(raw)
        if name in request:
            raise BadInput(f"{name} is asked for twice")
        request[name] = parse_amount(name, value)
    return tuple(sorted((name, amount) for name, amount in request.items() if amount))


def parse_limits(values: Mapping[str, object]) -> Limits:
    """Read a capacity such as {"gpu": 4, "cpu": 16}, {"gpu": [2, 3]} or {"ram": {"pool": 512}}."""
    limits: Limits = {}
    for raw, value in values.items():
        name = check_name(raw)
        if name == VRAM:
            raise BadInput("vram belongs to a device: write gpu: {'0': {vram: \"24G\"}}")
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
    """What a limit declares where the machine itself knows nothing of the resource."""
    match limit:
        case DeviceCount(n):
            return Devices(tuple(Device(str(i)) for i in range(n)))
        case DeviceIds(ids):
            return Devices(tuple(Device(i) for i in ids))
        case _:
            return limit


def union(first: Supply, second: Supply) -> Supply:
    """Join two declarations: devices are united, of pools the larger counts."""
    if isinstance(first, Pool) and isinstance(second, Pool):
        return Pool(max(first.amount, second.amount))
    if isinstance(first, Devices) and isinstance(second, Devices):
        merged = {d.id: d for d in first.devices}
        for d in second.devices:
            known = merged.get(d.id, d)
            merged[d.id] = Device(d.id, max(d.worth, known.worth), max(d.vram, known.vram))
        return Devices(tuple(sorted(merged.values(), key=lambda d: device_order(d.id))))
    return first


def bind(name: str, limit: Limit, supply: Supply) -> Supply:
    """The part of a machine's supply that a limit leaves; refuses devices that are not there."""
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


def amount_text(amount: int) -> str:
    """Write an amount without needless zeros: 0.5, 2, 1.25."""
    whole, part = divmod(amount, ONE)
    return f"{whole}.{part:06d}".rstrip("0") if part else str(whole)


def amount_number(amount: int) -> int | float:
    """An amount as a JSON number."""
    return amount // ONE if amount % ONE == 0 else amount / ONE


def request_text(request: Request) -> str:
    """A request in words: gpu 0.5, cpu 4."""
    return ", ".join(f"{name} {amount_text(amount)}" for name, amount in request) or "nothing"


def allocation_json(allocation: Allocation | None) -> dict[str, object] | None:
    """An allocation as data: {"gpu": {"0": 1.0}, "cpu": 4}."""
    if allocation is None:
        return None
    shown: dict[str, object] = {}
    for name, held in allocation.items():
        if isinstance(held, dict):
            shown[name] = {device: amount / ONE for device, amount in held.items()}
        else:
            shown[name] = amount_number(held)
    return shown
