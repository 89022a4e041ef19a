"""When a suspended job that has given its devices back may go on: its own devices must have room for it again.

The jobs that wait for this are looked at in the order in which they asked. What one of them needs is kept for it, also
if it does not fit yet: neither a new job nor a later one of them gets it.
"""

from __future__ import annotations

from collections.abc import Iterator

from grassq.core.model import Job
from grassq.core.planner.board import Board
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Devices, Pool
from grassq.core.resources.ledger import Ledger
from grassq.core.resources.slots import slots_in
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM, VRAM_OF

#: A resource, and a device of it; of a pool and of the slots of a queue the device is "".
Part = tuple[str, str]


def returning(board: Board) -> list[Job]:
    """Return the suspended jobs that go on as soon as their devices have room; the first that asked comes first."""
    found = [job for job in board.holding.values() if job.suspension is not None and job.suspension.waits]
    return sorted(found, key=lambda job: (job.suspension.resume_asked if job.suspension else 0.0, job.id))


def regained(board: Board) -> list[Job]:
    """Return the suspended jobs whose devices have room for them now, each beside the ones before it."""
    return [job for job, lacks, _ in _looked_at(board) if not lacks]


def in_the_way(board: Board, job: Job) -> list[Job]:
    """Return the jobs that hold, or are kept, what a suspended job needs to go on; empty if nothing is missing."""
    for each, lacks, others in _looked_at(board):
        if each.id == job.id:
            return [other for other in others if other.placement and lacks & _parts(other, job)]
    return []


def _looked_at(board: Board) -> Iterator[tuple[Job, set[Part], list[Job]]]:
    """Yield each job that waits to go on, what it lacks, and the jobs of its worker that come before it."""
    others: dict[str, list[Job]] = {}
    for job in returning(board):
        assert job.placement is not None
        name = job.placement.worker
        if name not in others:
            others[name] = [each for each in board.held_by(name) if board.counts(each)]
        yield job, _lacks(board, job, others[name]), others[name]
        others[name] = [*others[name], job]


def _lacks(board: Board, job: Job, others: list[Job]) -> set[Part]:
    """Return the parts of a job's allocation for which there is no room beside other jobs of its worker.

    What programs outside of Grass use does not count: it may be the memory that the job itself has kept.
    """
    assert job.placement is not None
    worker = board.workers.get(job.placement.worker)
    if worker is None:
        return set()
    machine, offer = worker.machine.emptied(), worker.offers.get(job.spec.queue)
    offer = None if offer is None else offer.emptied()
    for other in others:
        assert other.placement is not None
        machine.take(other.placement.allocation)
        if offer is not None and other.spec.queue == job.spec.queue:
            offer.take(other.placement.allocation)
    lacks = _missing(machine, job.placement.allocation)
    if offer is not None:
        lacks |= _missing(offer, job.placement.allocation)
    if any(_shares_slot(other, job) for other in others):
        lacks.add((SLOT, ""))
    return lacks


def _shares_slot(other: Job, job: Job) -> bool:
    """Tell whether two jobs were given the same slot of a queue, which may have other slots by now."""
    if other.spec.queue != job.spec.queue or other.placement is None or job.placement is None:
        return False
    mine, theirs = job.placement.allocation, other.placement.allocation
    return _slot_devices(mine) == _slot_devices(theirs) and not set(slots_in(mine)).isdisjoint(slots_in(theirs))


def _slot_devices(allocation: Allocation) -> set[str]:
    held = allocation.get(SLOTS_OF)
    return set(held) if isinstance(held, dict) else set()


def _missing(ledger: Ledger, allocation: Allocation) -> set[Part]:
    """Return the parts of an allocation that do not fit beside what is taken; what no other job uses always fits.

    A limit may have become smaller than what the job was given: alone it may go on all the same.
    """
    missing: set[Part] = set()
    for name, held in allocation.items():
        if not isinstance(held, dict):
            supply, taken = ledger.supply.get(name), ledger.pools.get(name, 0)
            if taken and isinstance(supply, Pool) and taken + held > supply.amount:
                missing.add((name, ""))
        elif name != SLOT:
            missing |= {(name, device) for device, amount in held.items() if not _fits(ledger, name, device, amount)}
    return missing


def _fits(ledger: Ledger, name: str, device: str, amount: int) -> bool:
    group = VRAM_OF if name == VRAM else name
    load, supply = ledger.loads.get(group, {}).get(device), ledger.supply.get(group)
    if load is None or not load.holders:
        return True
    known = next((each for each in supply.devices if each.id == device), None) if isinstance(supply, Devices) else None
    if load.wholes:
        return False
    if name == VRAM:
        # The memory of a device that was removed meanwhile is not known: the job waits for the others there.
        return known is not None and load.vram + amount <= known.vram
    worth = ONE if known is None else known.worth
    return amount < worth and load.used + amount <= worth


def _parts(other: Job, job: Job) -> set[Part]:
    """Return the parts that a job holds, as far as another job of its worker may lack them."""
    assert other.placement is not None
    parts: set[Part] = set()
    for name, held in other.placement.allocation.items():
        if name == SLOT:
            parts |= {(SLOT, "")} if _shares_slot(other, job) else set()
        elif isinstance(held, dict):
            group = VRAM_OF if name == VRAM else name
            parts |= {(each, device) for device in held for each in (group, VRAM if group == VRAM_OF else group)}
        else:
            parts.add((name, ""))
    return parts
