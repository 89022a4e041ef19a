"""Why a queued job does not start, answered by the same `fit` that the planner uses."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.model import ANYWHERE, Constraints, Job, priority_in
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Kept
from grassq.core.planner.kept_room import KEPT_MAX
from grassq.core.planner.limits.known_starts import lasts_s
from grassq.core.planner.plan import PLACEMENTS_MAX
from grassq.core.planner.reservations import Reservation, first_of, joined
from grassq.core.planner.scan import Scan
from grassq.core.planner.workers import WorkerState
from grassq.core.printable import printable, size_text
from grassq.core.resources.amounts import Request, amount_text
from grassq.core.resources.capacity import Devices
from grassq.core.resources.fit import FreeView, Shortage, fit, fits_ever
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM, VRAM_OF
from grassq.core.syntax.slots import device_order

#: The resource of a blocker when the worker itself cannot take the job.
WORKER = "worker"
#: The resource of a blocker when the limit of a group keeps the job from starting on any worker.
LIMIT = "limit"
#: How many of the jobs that keep room are named.
KEEPERS_SHOWN = 3
#: Characters of a path in a sentence.
PATH_SHOWN = 200


class Blocker(Struct, frozen=True):
    """Why a job does not start on one worker."""

    worker: str
    resource: str
    needed: int
    free: int
    why: str
    holders: tuple[int, ...] = ()
    #: What programs outside of Grass use of the resource on the worker, in words.
    others: str = ""
    #: The devices of the resource on the worker that are drained.
    drained: tuple[str, ...] = ()
    #: When the job that keeps the resource starts at the latest, on the broker's monotonic clock, if that is known.
    starts_by: float | None = None


class Turn(Struct, frozen=True):
    """Where a queued job is in line."""

    #: How many queued jobs have a higher priority, and how many of the same priority were submitted earlier.
    higher: int
    earlier: int
    #: Only if the job is the head of its queue: how many jobs have passed it, and when its patience ends.
    passed: int | None = None
    ripe_at: float | None = None
    #: The worker on which room is kept for the job, and whether it is kept from equals too.
    kept: Kept | None = None
    is_ripe: bool = False
    #: When the job starts at the latest, on the broker's monotonic clock, if time limits tell.
    starts_by: float | None = None


class Outlook:
    """What the next plan does; it answers for any number of jobs."""

    def __init__(self, board: Board, now: float) -> None:
        self._board = board
        self._now = now
        scan = Scan(board, now)
        try:
            self._started = {start.order for start in scan.starts(PLACEMENTS_MAX)}
            scan.keep_all_room()
            scan.room.groups.settle()
        finally:
            scan.done()
        self._overlay, self._room = scan.overlay, scan.room

    def explain(self, job: Job) -> list[Blocker]:
        """Return why a queued job does not start, per worker; an empty list if it starts, or is about to."""
        if job.order in self._started:
            return []
        if (refusal := self._room.groups.refusal(job)) is not None:
            return [Blocker("", LIMIT, 0, 0, *refusal)]
        asked, only = _asked(self._board, job.spec.queue, job.spec.constraints), job.spec.constraints.worker
        if not asked and only is not None:
            return [Blocker(only, WORKER, 0, 0, f"worker {only} has no queue {job.spec.queue!r}")]
        found = [self._blocker_at(worker, job) for worker in asked]
        blockers = [blocker for blocker in found if blocker is not None]
        return blockers if len(blockers) == len(found) else []

    def workers_for(self, job: Job) -> list[str]:
        """Return the workers on which a job that is not queued yet could start now."""
        asked = _asked(self._board, job.spec.queue, job.spec.constraints)
        return [worker.info.name for worker in asked if self._blocker_at(worker, job) is None]

    def turn(self, job: Job) -> Turn:
        """Return where a queued job is in line."""
        board, head = self._board, self._board.heads.get(job.spec.queue)
        higher = board.positions.before(first_of(job.priority))
        turn = Turn(higher, board.positions.before(job.order) - higher)
        if head is not None and head.job == job.id:
            turn = replace(turn, passed=head.passed, ripe_at=head.since + board.patience.wait_s)
        found = next((each for each in self._room.reservations if each.order == job.order), None)
        if found is None:
            return turn
        known = board.kept.get(job.id)
        since = known.since if known is not None and known.worker == found.worker else self._now
        kept = Kept(found.worker, since)
        return replace(turn, kept=kept, is_ripe=found.is_ripe, starts_by=self._starts_by([found]))

    def _blocker_at(self, worker: WorkerState, job: Job) -> Blocker | None:
        """Return why a job does not start on a worker; None if it fits there, and a later plan starts it."""
        name, queue = worker.info.name, job.spec.queue
        closed = worker.refuses(queue, job.spec.constraints) or _closed(worker)
        names = [resource for resource, _ in job.spec.request]
        if closed is None and job.order >= self._room.closed_from(worker, queue, names):
            closed = f"worker {name} starts jobs of higher priority first: more than {KEPT_MAX} of them wait"
        if closed is not None:
            return Blocker(name, WORKER, 0, 0, closed)
        free_view = self._overlay.free_view(worker, queue)
        alone = fit(job.spec.request, free_view)
        blocking = self._room.blocking(job.order, queue, name, lasts_s(job.spec.constraints))
        free_view.reserved = joined(blocking, queue)
        found = fit(job.spec.request, free_view)
        if not isinstance(found, Shortage):
            return None
        if isinstance(alone, Shortage):
            return _blocker(self._board, worker, queue, found)
        why = f"{found.resource} is free but kept for {_keepers(self._board, job, blocking)}"
        return Blocker(name, found.resource, found.needed, found.free, why, starts_by=self._starts_by(blocking))

    def _starts_by(self, blocking: list[Reservation]) -> float | None:
        """Return when the only job that keeps room starts at the latest; None if that is not known."""
        if len(blocking) != 1 or self._started:
            return None
        (keeper,) = blocking
        others = (each for each in self._room.reservations if each.worker == keeper.worker)
        start = self._room.known_start(keeper) if min(each.order for each in others) == keeper.order else None
        return None if start is None else start.latest


def _keepers(board: Board, job: Job, blocking: list[Reservation]) -> str:
    """Return the jobs that keep room from a job, first in line first, and their right to it."""
    orders = sorted(reservation.order for reservation in blocking)
    names = ", ".join(f"job {board.id_at(order)}" for order in orders[:KEEPERS_SHOWN])
    more = f" and {len(orders) - KEEPERS_SHOWN} more" if len(orders) > KEEPERS_SHOWN else ""
    verb = "has" if len(orders) == 1 else "have"
    why = "a higher priority" if priority_in(orders[0]) > job.priority else "waited longer"
    return f"{names}{more}, which {verb} {why}"


def explain(board: Board, job: Job, now: float) -> list[Blocker]:
    """Return why a queued job does not start, per worker; an empty list if the next plan starts it."""
    return Outlook(board, now).explain(job)


def _asked(board: Board, queue: str, constraints: Constraints) -> list[WorkerState]:
    """Return the workers that offer a queue, or only the worker the job asks for."""
    return [worker for worker in board.offering(queue) if constraints.worker in (None, worker.info.name)]


def _closed(worker: WorkerState) -> str | None:
    name = worker.info.name
    if not worker.online:
        return f"worker {name} is out of touch"
    if worker.drained:
        return f"worker {name} is drained; `grass drain --undo {name}` lets it take jobs again"
    if worker.unrecorded:
        job, attempt = min(worker.unrecorded)
        return (
            f"worker {name} may run attempt {attempt} of job {job}, which the store has no record of since it was lost "
            "or restored from a backup; `grass resume --restored` goes on without waiting for its end"
        )
    return None if worker.info.disk_short is None else f"worker {name} starts no job: {short_text(worker)}"


def short_text(worker: WorkerState) -> str | None:
    """Return in words that the worker's disk is short of space, and what to do; None if it is not."""
    short = worker.info.disk_short
    if short is None:
        return None
    return (
        f"the disk of {printable(short.path, PATH_SHOWN)} has {size_text(short.free)} free, less than its floor of "
        f"{size_text(short.floor)}; `grass clean` removes ended jobs, or lower `disk_floor` in the settings"
    )


def _group(resource: str) -> str:
    """Return the devices a resource belongs to: memory belongs to its devices, everything else to itself."""
    return VRAM_OF if resource == VRAM else resource


def _blocker(board: Board, worker: WorkerState, queue: str, found: Shortage) -> Blocker:
    name, group = worker.info.name, _group(found.resource)
    if group != SLOT and worker.info.may_appear(group) and group not in worker.machine.supply:
        return Blocker(name, found.resource, found.needed, found.free, "devices are still being looked for")
    holders = board.holders(name, found.resource) or board.holders(name, group)
    if not holders and group == VRAM_OF:
        holders = board.holders(name, VRAM)
    ids = tuple(sorted(job.id for job in holders if _is_in_the_way(job, worker, queue, found)))
    others, drained = _others(worker, group), _drained(worker, queue, group)
    return Blocker(name, found.resource, found.needed, found.free, found.why, ids, others, drained)


def _drained(worker: WorkerState, queue: str, group: str) -> tuple[str, ...]:
    """Return the drained devices of a resource that a queue may use on a worker."""
    group = SLOTS_OF if group == SLOT else group
    supply = worker.free_view(queue).supply(group)
    allowed = {device.id for device in supply.devices} if isinstance(supply, Devices) else set()
    return tuple(sorted(allowed & worker.drained_devices.get(group, frozenset()), key=device_order))


def _others(worker: WorkerState, group: str) -> str:
    """Return in words what programs outside of Grass use of a resource on a worker."""
    words = []
    for name, used in worker.info.used_by_others.items():
        if _group(name) != group:
            continue
        if not isinstance(used, dict):
            words.append(f"{amount_text(used)} {name}")
        elif name == VRAM:
            words += [f"{amount_text(used[id_])} {VRAM} of {group} {id_}" for id_ in sorted(used, key=device_order)]
        else:
            words.append(f"device {', '.join(sorted(used, key=device_order))}")
    return ", ".join(words)


def _is_in_the_way(holder: Job, worker: WorkerState, queue: str, found: Shortage) -> bool:
    """Tell whether a job holds some of what is short for a queue: its slots, devices or limit, or the machine's."""
    group, view = _group(found.resource), worker.free_view(queue)
    supply = view.supply(group)
    if isinstance(supply, Devices):
        allowed = {device.id for device in supply.devices}
        held = holder.placement.allocation if holder.placement else {}
        parts = [held.get(name) for name in (group, VRAM) if _group(name) == group]
        return any(isinstance(part, dict) and not allowed.isdisjoint(part) for part in parts)
    # Where the machine has enough left, the queue has used up its own slots or limit.
    has_enough = FreeView(view.machine, view.machine).pool_free(group) >= found.needed
    return holder.spec.queue == queue or not (has_enough or group == SLOT)


def never_fits(board: Board, queue: str, request: Request, constraints: Constraints = ANYWHERE) -> str | None:
    """Return why no known worker can ever run this, or None."""
    if constraints.worker is not None and constraints.worker not in board.workers:
        return f"there is no worker {constraints.worker!r}; `grass show` lists them"
    reasons = []
    asked = _asked(board, queue, constraints)
    if not asked and any(board.offering(queue)):
        return f"worker {constraints.worker!r} has no queue {queue!r}"
    for worker in asked:
        if (refusal := worker.refuses(queue, constraints)) is not None:
            reasons.append(refusal)
            continue
        offer = worker.offers[queue].supply
        may_appear = worker.info.may_appear
        # Until detection ends the machine may have more, but a queue's own limit holds already.
        machine = {name: supply for name, supply in offer.items() if may_appear(name)} | worker.machine.supply
        found = fits_ever(request, machine, offer, worker.offers[queue].slot_set)
        if found is None or (may_appear(_group(found.resource)) and found.resource not in machine):
            return None
        where = f"queue {queue!r} on {worker.info.name}"
        if worker.offers[queue].slot_set is not None:
            reasons.append(f"{where} has no slot whose devices are all there")
            continue
        most = f"has {amount_text(found.free)}" if found.free else "has none"
        reasons.append(f"{amount_text(found.needed)} {found.resource} asked, {where} {most}")
    if reasons and constraints.labels:
        reasons += _labelled_elsewhere(board, queue, constraints)
    # Many workers often share one reason.
    return "; ".join(dict.fromkeys(reasons)) or None


def _labelled_elsewhere(board: Board, queue: str, constraints: Constraints) -> list[str]:
    """Return the workers that have all the labels, but not the queue."""
    have = [worker for worker in board.workers.values() if set(constraints.labels) <= set(worker.info.labels)]
    return [
        f"worker {worker.info.name} has the label but no queue {queue!r}"
        for worker in have
        if worker.offer(queue) is None
    ]
