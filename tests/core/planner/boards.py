"""Random machines with jobs on them, and every choice of devices a request may get there: a slow, plain `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from hypothesis import strategies as st
from msgspec import Struct

from grassq.core.resources.amounts import ONE, Allocation, Request
from grassq.core.resources.capacity import Capacity, Device, Devices, Pool, bind
from grassq.core.resources.fit import FreeView, Shortage, fit
from grassq.core.resources.ledger import Ledger, ReservedAmounts

QUARTER = ONE // 4
SIDES = ("a", "b")


class Scene(Struct):
    """A machine, two queues on it, what their jobs hold, and what waiting jobs keep."""

    machine: Capacity
    offers: dict[str, Capacity]
    live: list[tuple[str, Allocation]]
    reserved: ReservedAmounts

    def place(self, side: str) -> FreeView:
        machine, offer = Ledger(self.machine), Ledger(self.offers[side])
        for owner, held in self.live:
            machine.take(held)
            if owner == side:
                offer.take(held)
        return FreeView(machine, offer, self.reserved)

    def device(self, device: str) -> Device:
        return next(d for d in self.gpus if d.id == device)

    @property
    def gpus(self) -> tuple[Device, ...]:
        return devices_of(self.machine)

    def held(self, name: str, device: str, side: str | None = None) -> list[int]:
        """What is held of a device, job by job (of one queue)."""
        return [
            held[name][device]  # type: ignore[index]
            for owner, held in self.live
            if side in (None, owner) and device in held.get(name, {})  # type: ignore[operator]
        ]

    def kept(self, device: str) -> int:
        return self.reserved.devices.get("gpu", {}).get(device, 0)

    def empty(self, device: str) -> bool:
        kept = self.kept(device) or self.reserved.vram.get(device, 0)
        return not kept and not self.held("gpu", device) and not self.held("vram", device)

    def closed(self, device: str) -> bool:
        return self.device(device).worth in self.held("gpu", device)

    def limits(self, side: str) -> dict[str, int]:
        """What this queue may hold of each device it may use."""
        present = {d.id: d.worth for d in self.gpus}
        allowed = self.offers[side].get("gpu", self.machine["gpu"])
        assert isinstance(allowed, Devices)
        return {d.id: min(d.worth, present[d.id]) for d in allowed.devices if d.id in present}

    def in_units(self, side: str) -> bool:
        """Whether every device this queue sees is worth 1, kept for a head or not."""
        allowed = self.offers[side].get("gpu", self.machine["gpu"])
        assert isinstance(allowed, Devices)
        return all(d.worth == ONE == self.device(d.id).worth for d in allowed.devices)

    def free(self, device: str, side: str) -> int:
        if self.closed(device):
            return 0
        on_machine = self.device(device).worth - sum(self.held("gpu", device)) - self.kept(device)
        kept = self.reserved.device_limits.get("gpu", {}).get(device, 0)
        return max(0, min(on_machine, self.limits(side)[device] - sum(self.held("gpu", device, side)) - kept))

    def memory(self, device: str) -> int:
        kept = self.reserved.vram.get(device, 0)
        return max(0, self.device(device).vram - sum(self.held("vram", device)) - kept)

    def pool(self, name: str, side: str) -> int:
        used = {s: sum(h[name] for o, h in self.live if o in s and name in h) for s in ("ab", side)}  # type: ignore[misc]
        free = amount_of(self.machine[name]) - used["ab"] - self.reserved.pools.get(name, 0)
        if name in self.offers[side]:
            limit = amount_of(self.offers[side][name]) - used[side] - self.reserved.pool_limits.get(name, 0)
            free = min(free, limit)
        return max(0, free)


def devices_of(capacity: Capacity) -> tuple[Device, ...]:
    supply = capacity["gpu"]
    assert isinstance(supply, Devices)
    return supply.devices


def amount_of(supply: object) -> int:
    assert isinstance(supply, Pool)
    return supply.amount


def is_legal(allocation: Allocation, scene: Scene, side: str) -> bool:
    """Whether one more job may hold this, by the rules as the design states them."""
    gpus, memory = allocation.get("gpu", {}), allocation.get("vram", {})
    assert isinstance(gpus, dict) and isinstance(memory, dict)
    allowed = scene.limits(side)
    for device, amount in gpus.items():
        if device not in allowed or amount > scene.free(device, side):
            return False
        if amount == scene.device(device).worth and not scene.empty(device):
            return False
    for device, size in memory.items():
        if device not in allowed or scene.closed(device) or size > scene.memory(device):
            return False
    return all(amount <= scene.pool(name, side) for name, amount in allocation.items() if not isinstance(amount, dict))


def choices(request: Request, scene: Scene, side: str) -> Iterator[Allocation]:
    """Every way to split a request over devices that the design allows, legal now or not."""
    asked = dict(request)
    vram, gpu = asked.pop("vram", 0), asked.pop("gpu", 0)
    rest: Allocation = dict(asked)
    for devices in splits(gpu, scene, side):
        if not vram:
            yield rest | ({"gpu": devices} if gpu else {})
        elif gpu:
            yield rest | {"gpu": devices, "vram": dict.fromkeys(devices, vram)}
        else:
            for device in scene.gpus:
                yield rest | {"vram": {device.id: vram}}


def splits(amount: int, scene: Scene, side: str) -> Iterator[dict[str, int]]:
    ids = [d.id for d in scene.gpus]
    if not amount:
        yield {}
    elif not scene.in_units(side):
        yield from ({device: amount} for device in ids)
    else:
        wholes, part = divmod(amount, ONE)
        for chosen in combinations(ids, wholes):
            if not part:
                yield dict.fromkeys(chosen, ONE)
            for last in ids:
                if part and last not in chosen:
                    yield dict.fromkeys(chosen, ONE) | {last: part}


quarters = st.integers(1, 18).map(lambda n: n * QUARTER)


def requests(*, vram: bool = True) -> st.SearchStrategy[Request]:
    fields: dict[str, st.SearchStrategy[int]] = {"gpu": quarters, "cpu": quarters}
    if vram:
        fields["vram"] = st.integers(1, 6)
    return st.fixed_dictionaries({}, optional=fields).map(lambda asked: tuple(sorted(asked.items())))


@st.composite
def scenes(draw: st.DrawFn, *, units: bool = False, memory: bool = True, kept: bool = True) -> Scene:
    """A machine with up to four devices on which two queues have started what fitted."""
    worth = st.just(ONE) if units else st.sampled_from([ONE, ONE, ONE, 2 * ONE, QUARTER, 3 * QUARTER])
    sizes = st.sampled_from([0, 4, 8] if memory else [0])
    gpus = tuple(Device(str(i), draw(worth), draw(sizes)) for i in range(draw(st.integers(1, 4))))
    machine: Capacity = {"gpu": Devices(gpus), "cpu": Pool(draw(quarters))}
    offers = {side: draw(limits(gpus, units=units)) for side in SIDES}
    bound = {side: {n: bind(n, limit, machine[n]) for n, limit in offers[side].items()} for side in SIDES}
    scene = Scene(machine, bound, [], ReservedAmounts())
    for side, request in draw(st.lists(st.tuples(st.sampled_from(SIDES), requests(vram=memory)), max_size=7)):
        found = fit(request, scene.place(side))
        if not isinstance(found, Shortage):
            scene.live.append((side, found))
    scene.live = [held for held in scene.live if draw(st.integers(0, 3))]
    if kept and draw(st.booleans()):
        ids = st.sampled_from([d.id for d in gpus])
        amounts = ReservedAmounts(
            {"gpu": draw(st.dictionaries(ids, quarters))},
            {"cpu": draw(quarters)},
            draw(st.dictionaries(ids, st.integers(1, 8))) if memory else {},
        )
        scene.reserved.add(amounts, same_queue=draw(st.booleans()))
    return scene


@st.composite
def limits(draw: st.DrawFn, gpus: tuple[Device, ...], *, units: bool) -> Capacity:
    found: Capacity = {}
    if draw(st.booleans()):
        chosen = [d for d in gpus if draw(st.booleans())]
        worth = st.just(ONE) if units else st.sampled_from([ONE, ONE, ONE, QUARTER])
        found["gpu"] = Devices(tuple(Device(d.id, draw(worth), d.vram) for d in chosen))
    if draw(st.booleans()):
        found["cpu"] = Pool(draw(quarters))
    return found
