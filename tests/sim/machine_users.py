"""What people do to the machines: devices that they add, remove and drain, and slots of queues."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grassq.core.model import Offer
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Device, Devices
from grassq.core.resources.device_changes import DeviceChange, Verb, change
from grassq.core.resources.slots import Slot, limits_of
from grassq.errors import NotFound

if TYPE_CHECKING:
    from tests.sim.play import Play

#: The devices that users add, and what they do with devices.
EXTRAS = tuple(Device(id_, ONE, 16384 * ONE) for id_ in ("1", "2", "7"))
VERBS: tuple[Verb, ...] = ("add", "add", "remove", "drain", "drain", "undrain", "undrain")


def with_slots(play: Play, worker: str, offer: Offer) -> Offer:
    """A queue with slots on devices of a worker: some shared, some of several, some of none."""
    supply, rng = play.capacity[worker]["gpu"], play.rng
    assert isinstance(supply, Devices)
    ids = [device.id for device in supply.devices]
    chosen = [rng.sample(ids, rng.randint(0, len(ids))) for _ in range(rng.randint(1, 4))]
    slots = tuple(Slot(",".join(each), tuple(each)) for each in chosen)
    return replace(offer, limits=limits_of(slots), slots=slots, order=rng.choice(("stack", "rotate")))


def change_devices(play: Play) -> None:
    """Somebody adds, removes, drains or undrains a device of a worker; and somebody will again."""
    if not play.faulty:
        return
    rng = play.rng
    machine = play.machines[rng.choice(sorted(play.machines))]
    base, known = play.capacity[machine.name], play.devices[machine.name]
    asked = DeviceChange(rng.choice(VERBS), (rng.choice(("0", "0", "1", "2", "7")),), vram=EXTRAS[0].vram)
    with contextlib.suppress(NotFound):
        play.devices[machine.name], _ = change(known, asked, base)
    if machine.agent is not None:
        machine.agent.describe(replace(machine.agent.info, devices=play.devices[machine.name]))
    play.after(rng.expovariate(0.7), lambda: change_devices(play))
