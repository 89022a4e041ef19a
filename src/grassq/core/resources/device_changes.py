"""Devices that a person adds to a machine, removes from it or drains, on top of what the machine has by itself.

A worker keeps these changes and tells them with its description, and every capacity is computed by `changed_capacity`.
A drained device stays a part of the capacity, so a request that needs the device waits; the device is given to no new
job. A removed device is no part of the capacity; a job that holds the device runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from grassq.core.names import shown
from grassq.core.resources.amounts import ONE, check_resource_name
from grassq.core.resources.capacity import Capacity, Device, Devices, Pool, Supply
from grassq.core.syntax.resource_names import COMMON_RESOURCES, POOLS, VRAM, VRAM_OF
from grassq.core.syntax.slots import DEVICES_MAX, device_ids, device_order
from grassq.errors import BadInput, NotFound, Refused

Verb = Literal["add", "remove", "drain", "undrain"]
Ids = Annotated[tuple[str, ...], Meta(max_length=DEVICES_MAX)]
#: How many devices one change names.
IDS_MAX = 256
#: How many resources have changed devices.
CHANGED_MAX = 64


class ChangedDevices(Struct, frozen=True, omit_defaults=True):
    """What was changed of the devices of one resource."""

    added: Annotated[tuple[Device, ...], Meta(max_length=DEVICES_MAX)] = ()
    removed: Ids = ()
    drained: Ids = ()


#: By resource.
DeviceChanges = Annotated[dict[str, ChangedDevices], Meta(max_length=CHANGED_MAX)]


class DeviceChange(Struct, frozen=True):
    """One change that a person asks for."""

    verb: Verb
    ids: Annotated[tuple[str, ...], Meta(min_length=1, max_length=IDS_MAX)]
    resource: str = VRAM_OF
    #: The memory of added devices in millionths of a MiB; 0 if it is not known.
    vram: int = 0


def checked_change(verb: Verb, ids: Iterable[object], resource: str = VRAM_OF, vram: int = 0) -> DeviceChange:
    """Return a change as asked for; raise BadInput for names that no device or resource has."""
    name = check_resource_name(resource)
    if name in (VRAM, *POOLS):
        raise BadInput(f"{name} has no devices of its own; --resource names devices, such as {VRAM_OF}")
    found = tuple(sorted(device_ids(name, ids), key=device_order))
    if not found or len(found) > IDS_MAX:
        raise BadInput(f"name 1 to {IDS_MAX} devices, such as 0 or 0 1 2, not {len(found):,}")
    if verb == "add":
        _check_new(found, dict.fromkeys(COMMON_RESOURCES))
    return DeviceChange(verb, found, name, vram if verb == "add" else 0)


def _check_new(ids: Iterable[str], resources: Mapping[str, object]) -> None:
    """Raise BadInput for a new device that has the name of a resource."""
    for id_ in ids:
        if id_ in resources:
            has_none = id_ in (VRAM, *POOLS) or isinstance(resources.get(id_), Pool)
            hint = "it is a sum without devices" if has_none else f"name its devices: --resource {id_} 0 1"
            raise BadInput(f"{id_} is a resource, not a device; {hint}")


def changed_capacity(capacity: Capacity, changes: Mapping[str, ChangedDevices]) -> Capacity:
    """Return what a machine has, with the changes of its devices."""
    if not changes:
        return capacity
    return capacity | {
        name: supply
        for name, changed in changes.items()
        if (supply := _changed_supply(capacity.get(name), changed)) is not None
    }


def _changed_supply(supply: Supply | None, changed: ChangedDevices) -> Supply | None:
    """Return the devices of one resource, with changes; None if there were none and none were added."""
    if supply is not None and not isinstance(supply, Devices):
        return supply
    known = {device.id: device for device in (*changed.added, *(supply.devices if supply is not None else ()))}
    if supply is None and not known:
        return None
    left = [device for id_, device in known.items() if id_ not in changed.removed]
    return Devices(tuple(sorted(left, key=lambda device: device_order(device.id))))


def drained_of(changes: Mapping[str, ChangedDevices]) -> dict[str, frozenset[str]]:
    """Return the drained devices by resource, without resources that have none."""
    return {name: frozenset(changed.drained) for name, changed in changes.items() if changed.drained}


def change(
    before: Mapping[str, ChangedDevices], asked: DeviceChange, base: Capacity
) -> tuple[dict[str, ChangedDevices], list[str]]:
    """Return the changes after one more change, and notes; `base` is what the machine has without any changes.

    Raise NotFound for a device that is not there, BadInput for a new one with the name of a resource, and Refused where
    the resource has no devices.
    """
    supply = base.get(asked.resource)
    if supply is not None and not isinstance(supply, Devices):
        raise Refused(f"{asked.resource} is a sum on this machine, and a sum has no devices")
    known = before.get(asked.resource, ChangedDevices())
    own = {device.id for device in supply.devices} if supply is not None else set[str]()
    if asked.verb == "add":
        _check_new([id_ for id_ in asked.ids if id_ not in own], base)
    after, notes = _VERBS[asked.verb](known, asked, supply, own)
    changes = {**before, asked.resource: after}
    if after == ChangedDevices():
        del changes[asked.resource]
    if len(changes) > CHANGED_MAX:
        raise Refused(f"the devices of {CHANGED_MAX} resources are changed already")
    return changes, notes


_Done = tuple[ChangedDevices, list[str]]


def _add(known: ChangedDevices, asked: DeviceChange, supply: Devices | None, own: Collection[str]) -> _Done:
    there = _ids_there(known, own)
    worths = {device.worth for device in (*known.added, *(supply.devices if supply is not None else ()))}
    worth = worths.pop() if len(worths) == 1 else ONE
    new = [Device(id_, worth, asked.vram) for id_ in asked.ids if id_ not in there and id_ not in own]
    if len(there) + len(asked.ids) > DEVICES_MAX:
        raise Refused(f"a machine has at most {DEVICES_MAX} devices of {asked.resource}")
    notes = []
    for id_ in asked.ids:
        if id_ in there:
            hint = "; `grass device undrain` lets it take jobs again" if id_ in known.drained else ""
            notes.append(f"{asked.resource} {id_} is there already{hint}")
    added = _sorted_devices((*known.added, *new))
    return replace(known, added=added, removed=_without(known.removed, asked.ids)), notes


def _remove(known: ChangedDevices, asked: DeviceChange, supply: Devices | None, own: Collection[str]) -> _Done:
    there = _ids_there(known, own)
    notes = [f"{asked.resource} {id_} was removed already" for id_ in asked.ids if id_ in known.removed]
    _check_there([id_ for id_ in asked.ids if id_ not in known.removed], asked.resource, there)
    return ChangedDevices(
        tuple(device for device in known.added if device.id not in asked.ids),
        _sorted_ids((*known.removed, *(id_ for id_ in asked.ids if id_ in own))),
        _without(known.drained, asked.ids),
    ), notes


def _drain(known: ChangedDevices, asked: DeviceChange, supply: Devices | None, own: Collection[str]) -> _Done:
    _check_there(asked.ids, asked.resource, _ids_there(known, own))
    notes = [f"{asked.resource} {id_} is drained already" for id_ in asked.ids if id_ in known.drained]
    return replace(known, drained=_sorted_ids((*known.drained, *asked.ids))), notes


def _undrain(known: ChangedDevices, asked: DeviceChange, supply: Devices | None, own: Collection[str]) -> _Done:
    others = [id_ for id_ in asked.ids if id_ not in known.drained]
    _check_there(others, asked.resource, _ids_there(known, own))
    notes = [f"{asked.resource} {id_} is not drained" for id_ in others]
    return replace(known, drained=_without(known.drained, asked.ids)), notes


_VERBS: dict[Verb, Callable[[ChangedDevices, DeviceChange, Devices | None, Collection[str]], _Done]] = {
    "add": _add,
    "remove": _remove,
    "drain": _drain,
    "undrain": _undrain,
}


def _ids_there(known: ChangedDevices, own: Collection[str]) -> set[str]:
    return {*own, *(device.id for device in known.added)} - set(known.removed)


def _check_there(ids: Iterable[str], resource: str, there: Collection[str]) -> None:
    missing = [id_ for id_ in ids if id_ not in there]
    if missing:
        have = ", ".join(sorted(there, key=device_order)) or "none"
        raise NotFound(f"this machine has no {resource} {shown(missing[0])}; it has {have}")


def _without(ids: Iterable[str], gone: Collection[str]) -> tuple[str, ...]:
    return tuple([id_ for id_ in ids if id_ not in gone])


def _sorted_ids(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(ids), key=device_order))


def _sorted_devices(devices: Iterable[Device]) -> tuple[Device, ...]:
    return tuple(sorted(devices, key=lambda device: device_order(device.id)))
