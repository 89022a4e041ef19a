"""When a suspended job that has given its devices back may go on: when its own devices and its groups have room again.

The jobs that wait for this are looked at in the order in which they asked. What one of them needs is kept for it, also
if it does not fit yet: neither a new job nor a later one of them gets it. Its part of the limits of its groups is kept
first, and its devices as soon as these limits have room: no job outside of a group waits because of its limit. A job
that a limit would never hold keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from grassq.core.model import Job
from grassq.core.planner.board import Board
from grassq.core.planner.limits.groups import GroupUse, names_in, never_within
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Devices, Pool
from grassq.core.resources.ledger import Ledger
from grassq.core.resources.slots import slots_in
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM, VRAM_OF

#: A resource, and a device of it; of a pool and of the slots of a queue the device is "".
Part = tuple[str, str]


def returning(board: Board) -> list[Job]:
    """Return the suspended jobs that go on as soon as their devices have room; the first that asked comes first."""
    waiting = (job for job in board.holding.values() if job.suspension is not None and job.suspension.waits)
    found = [job for job in waiting if not job.cancel_requested]
    return sorted(found, key=lambda job: (job.suspension.resume_asked if job.suspension else 0.0, job.id))


def regained(board: Board) -> list[Job]:
    """Return the suspended jobs whose devices and groups have room for them now, each beside the ones before it."""
    return [each.job for each in _looked_at(board) if each.limit is None and not each.lacks]


def has_room(board: Board, job: Job) -> bool:
    """Tell whether a job that has given its devices back could have them now, beside the jobs that wait to go on."""
    assert job.placement is not None
    if job.suspension is not None and job.suspension.waits:
        return any(each.id == job.id for each in regained(board))
    uses: dict[str, GroupUse] = {}
    ahead = [each for each, limit in _within_limits(board, uses) if limit is None and each.placement is not None]
    others = [each for each in board.held_by(job.placement.worker) if board.counts(each) or each in ahead]
    names = board.groups.limited(job.spec.constraints)
    limits = [(uses.get(name, board.groups.use[name]), board.group_limits[name]) for name in names]
    return not _lacks(board, job, others) and all(use.lacks(limit, job.spec.request) is None for use, limit in limits)


def counted(board: Board) -> list[Job]:
    """Return the suspended jobs that keep their part of the limits of their groups until they go on."""
    return [job for job in returning(board) if _could_return(board, job)] if board.group_limits else []


def keeping(board: Board) -> list[Job]:
    """Return the suspended jobs that keep their devices until they go on: the limits of their groups have room."""
    return [job for job, limit in _within_limits(board) if limit is None]


def in_the_way(board: Board, job: Job) -> list[Job]:
    """Return the jobs that hold, or are kept, what a suspended job needs to go on; empty if nothing is missing."""
    before: list[Job] = []
    for each in _looked_at(board):
        if each.job.id == job.id:
            if each.limit is not None:
                held = [other for other in board.holding.values() if board.counts(other)]
                return [other for other in [*held, *before] if each.limit in names_in(other.spec.constraints)]
            return [other for other in each.others if other.placement and each.lacks & _parts(other, job)]
        before += [each.job] if _could_return(board, each.job) else []
    return []


def limit_in_the_way(board: Board, job: Job) -> str | None:
    """Return in words the limit that keeps a suspended job from going on; None if the limits have room for it."""
    uses: dict[str, GroupUse] = {}
    for each, name in _within_limits(board, uses):
        if each.id == job.id and name is not None:
            if (never := never_within(board, [name], job.spec.request)) is not None:
                return never
            limit = board.group_limits[name]
            if _could_return(board, job):
                uses[name].add(job.spec.request, -1)
            return f"limit {name} {limit.text()}: {uses[name].lacks(limit, job.spec.request)}"
    return None


class _Returning(Struct, frozen=True):
    """A suspended job that is to go on, and what it has to wait for."""

    job: Job
    #: The first of its groups whose limit has no room for it.
    limit: str | None
    #: What it lacks of its own devices, and the jobs of its worker that come before it.
    lacks: set[Part]
    others: list[Job]


def _looked_at(board: Board) -> Iterator[_Returning]:
    """Yield each job that waits to go on, and what it waits for."""
    others: dict[str, list[Job]] = {}
    for job, limit in _within_limits(board):
        assert job.placement is not None
        name = job.placement.worker
        if name not in others:
            others[name] = [each for each in board.held_by(name) if board.counts(each)]
        yield _Returning(job, limit, _lacks(board, job, others[name]), others[name])
        if limit is None:
            others[name] = [*others[name], job]


def _within_limits(board: Board, uses: dict[str, GroupUse] | None = None) -> Iterator[tuple[Job, str | None]]:
    """Yield each job that waits to go on, and the first of its groups whose limit has no room for it.

    `uses` gets what each group holds, with the jobs that were yielded.
    """
    uses = {} if uses is None else uses
    for job in returning(board):
        closed = None
        for name in board.groups.limited(job.spec.constraints):
            use = uses.setdefault(name, board.groups.use[name].copy())
            if closed is None and use.lacks(board.group_limits[name], job.spec.request) is not None:
                closed = name
            if _could_return(board, job):
                use.add(job.spec.request, 1)
        yield job, closed


def _could_return(board: Board, job: Job) -> bool:
    """Tell whether the limits of a job's groups would let it go on if no other job held anything."""
    names = board.groups.limited(job.spec.constraints)
    return all(board.group_limits[name].could_hold(job.spec.request) for name in names)


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
