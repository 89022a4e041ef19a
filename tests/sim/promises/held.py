"""What jobs hold of machines, counted apart from everything that Grass counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.sim.promises.promise import demand

from grassq.core.model import HOLDING, Job, Placement
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Pool
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM

Usage = Counter[tuple[str, str, str]]


def usage(jobs: Iterable[Job], is_over: Callable[[Job], bool] = lambda job: False) -> Usage:
    """What jobs hold that are not over: (worker, resource, device) to amount."""
    held: Usage = Counter()
    # A suspended job that has given its devices back holds nothing; the job that waits behind it has them.
    holding = [job for job in jobs if job.state in HOLDING and not job.is_freed]
    attempts = {job.attempt_id for job in holding}
    for job in holding:
        if is_over(job):
            continue
        demand(job.placement is not None, f"job {job.id} is {job.state} and nobody knows where")
        assert job.placement is not None
        # Who waits behind another holds nothing until that has ended.
        if job.placement.after not in attempts:
            held.update(held_by(job.placement, job.spec.queue))
    return held


def held_by(placement: Placement, queue: str) -> Usage:
    """What one attempt holds."""
    held: Usage = Counter()
    for name, amount in placement.allocation.items():
        for device, part in amount.items() if isinstance(amount, dict) else (("", amount),):
            if name == SLOT:
                ids = placement.allocation.get(SLOTS_OF)
                held[placement.worker, slot_of(queue), place_of(device, ids if isinstance(ids, dict) else ())] += part
            else:
                held[placement.worker, name, device] += part
    return held


def place_of(index: int | str, ids: Iterable[str]) -> str:
    """What one slot of a queue is counted as: of a queue that was made anew, one with other devices is another one."""
    return f"{index} on {','.join(sorted(set(ids)))}"


def slot_of(queue: str) -> str:
    """What slots are counted as: those of two queues have nothing to do with each other."""
    return f"{SLOT} of {queue}"


def most_of(capacity: Capacity, name: str, device: str) -> int:
    """How much there is of a device or of a sum."""
    if name.startswith(SLOT):
        return ONE
    if name == VRAM:
        gpu = capacity["gpu"]
        assert not isinstance(gpu, Pool)
        return next(known.vram for known in gpu.devices if known.id == device)
    supply = capacity[name]
    if isinstance(supply, Pool):
        return supply.amount
    return next(known.worth for known in supply.devices if known.id == device)
