"""The board: every job that is not finished, every worker, and which job holds which devices.

It mirrors the store's rows of unfinished jobs, so planning reads no disk. Jobs that hold devices or wait for a time are
kept whole. Of other jobs only the queue position is kept, so a million of them fit. `put` is the only way a job
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from grassq.core.model import FINAL, HOLDING, AttemptId, Constraints, Job, QueueTemplate, State, WorkerInfo
from grassq.core.planner.fleet import EVERYTHING as EVERYTHING
from grassq.core.planner.fleet import Fleet
from grassq.core.planner.heads import Head, Kept, ReservationPolicy
from grassq.core.planner.limits.attempt_times import AttemptTimes
from grassq.core.planner.limits.groups import GroupLimit, Groups, names_in
from grassq.core.planner.prefetch import Prefetch, PrefetchPolicy
from grassq.core.planner.ranks import Ranks
from grassq.core.planner.request_classes import RequestClass, Shape, amounts_of, shape_of
from grassq.core.planner.sorted_orders import SortedOrders
from grassq.core.planner.workers import (
    WorkerRoles,
    WorkerState,
    machine_capacity,
    max_fits,
    offer_ledgers,
    with_templates,
)
from grassq.core.resources.device_changes import drained_of
from grassq.core.resources.ledger import Ledger
from grassq.core.sweeps.sweep import LiveSweep
from grassq.core.waiting.dependencies import Dependencies
from grassq.core.waiting.start_times import StartTimes

#: Request classes that a queue keeps although no queued job has them now.
REQUEST_CLASSES_KEPT = 64
#: How many queued, blocked or held jobs are kept whole, so that they need not be read when their turn comes.
NEAR_MAX = 4096


class Board(Fleet):
    """All that is alive: jobs, workers, pauses and heads."""

    def __init__(
        self,
        paused: Mapping[str, str] | None = None,
        patience: ReservationPolicy | None = None,
        *,
        lease_s: float | None = None,
        roles: WorkerRoles | None = None,
        near_max: int = NEAR_MAX,
        prefetch_policy: PrefetchPolicy | None = None,
    ) -> None:
        """Make an empty board; `near_max` is how many queued, blocked or held jobs are kept whole.

        `lease_s` is given to attempts that may be started elsewhere, except on trusted workers.
        """
        super().__init__(paused)
        self.patience = patience or ReservationPolicy()
        self.prefetch = Prefetch(prefetch_policy)
        self.lease_s = lease_s
        self.roles = roles or WorkerRoles()
        #: Workers that must reconnect before anything is started: the store was restored from a backup.
        self.unreconciled: set[str] = set()
        #: Ids that the store does not know may have been given: none is given while a worker is unreconciled.
        self.is_unsure_of_ids = False
        #: The jobs that are kept whole: those of the next three fields, and some others.
        self.jobs: dict[int, Job] = {}
        #: The jobs that hold devices, and the same by worker.
        self.holding: dict[int, Job] = {}
        self._held_by: dict[str, dict[int, Job]] = {}
        #: The jobs that wait for a time; they may also wait for their queue or for other jobs.
        self.timed: dict[int, Job] = {}
        self.start_times = StartTimes()
        #: What jobs wait for of other jobs, also held jobs.
        self.dependencies = Dependencies()
        #: The other jobs that are kept whole, oldest first, and the most there may be.
        self._near: dict[int, None] = {}
        self._near_max = near_max
        #: The queued jobs of each queue by constraints and names of resources, and the positions of all queued jobs.
        self._request_classes: dict[str, dict[tuple[Constraints, tuple[str, ...]], RequestClass]] = {}
        self._line, self.ranks = SortedOrders(), Ranks()
        #: The jobs that wait for their queue, by shape, and the reason of each shape.
        self.blocked: dict[Shape, SortedOrders] = {}
        self.reasons: dict[Shape, str] = {}
        #: Shapes whose queued jobs must wait for this reason, or (None) whose blocked jobs need not wait any more.
        self.reevaluating: dict[Shape, str | None] = {}
        #: Tokens that have ended: no job starts for which one of them answers.
        self.ended_tokens: set[str] = set()
        #: The sweeps that have a limit and an unfinished job.
        self.sweeps: dict[int, LiveSweep] = {}
        self.lost_jobs = 0  # they have a folder on the broker's machine and are not stored; 0 once that is accepted
        self.heads: dict[str, Head] = {}
        #: The jobs for which the last plan kept room, by id.
        self.kept: dict[int, Kept] = {}
        self.times, self.groups = AttemptTimes(), Groups()
        self.group_limits = self.groups.limits

    def put(self, job: Job, before: Job | None = None, at: float | None = None) -> None:
        """Replace a job by its new version at a time (AttemptTimes); `before` is for a job that is not kept whole."""
        old = self.jobs.pop(job.id, None) or before
        if old is not None:
            self._forget(old)
            if old.spec is not job.spec and shape_of(old) != shape_of(job):
                self.forget_head(job.id)
            if old.waits:
                self._end_waits(old, job)
        self.ranks.put(old, job)
        if job.state in HOLDING:
            self._hold(job)
        gone, come = None if old is None else _holder(old), _holder(job)
        if gone != come:
            self._take_turns(gone, come)
        self.times.note(gone, come, at, is_running=job.state is State.RUNNING)
        if job.state in FINAL or job.state in HOLDING:
            return
        if job.waits_for_queue:
            self._block(job)
        if job.for_time is not None and job.state is State.WAITING:
            self.jobs[job.id] = self.timed[job.id] = job
            self.start_times.put(job.id, job.for_time)
            return
        if len(self._near) < self._near_max:
            self._keep_near(job)
        if job.state is State.QUEUED:
            self._queue(job, (job.order,))

    def put_new(self, jobs: Sequence[Job]) -> None:
        """Put new jobs, in order of position; many jobs of one shape in a row cost little more than their positions."""
        self.ranks.add(jobs)
        for (state, *_), group in groupby(jobs, _likeness):
            alike = [*group]
            if state is not State.QUEUED:
                for job in alike:
                    self.put(job)
                continue
            self._queue(alike[0], [job.order for job in alike])
            for job in alike[: max(0, self._near_max - len(self._near))]:
                self._keep_near(job)

    def _queue(self, one: Job, orders: Sequence[int]) -> None:
        """Add the positions of queued jobs of the same shape as this one."""
        names, amounts = amounts_of(one.spec.request)
        constraints = one.spec.constraints
        self._request_class(one.spec.queue, constraints, names).extend(amounts, orders, constraints)
        self._line.extend(orders)

    def _hold(self, job: Job) -> None:
        assert job.placement is not None
        self.jobs[job.id] = self.holding[job.id] = job
        self._held_by.setdefault(job.placement.worker, {})[job.id] = job
        self.prefetch.add(job)
        if self.counts(job):
            self._count(job, taking=True)

    def _take_turns(self, gone: AttemptId | None, come: AttemptId | None) -> None:
        """Give the devices of an attempt that is gone to its prefetched jobs; a new attempt takes them back."""
        if gone is not None:
            self.prefetch.ended(gone)
        for attempt, taking in ((gone, True), (come, False)):
            for prefetched in () if attempt is None else self.prefetch.behind(attempt):
                if not self.holding[prefetched].is_freed:
                    self._count(self.holding[prefetched], taking=taking)

    def holds(self, attempt: AttemptId) -> bool:
        """Tell whether an attempt is the newest of its job and holds devices or will."""
        job = self.holding.get(attempt[0])
        return job is not None and job.attempt == attempt[1]

    def predecessor(self, job: Job) -> Job | None:
        """Return the job whose devices a prefetched job will take over; None if the job has its own devices."""
        after = None if job.placement is None else job.placement.after
        return self.holding[after[0]] if after is not None and self.holds(after) else None

    def counts(self, job: Job) -> bool:
        """Tell whether a job with a placement holds its devices: it has not given them back, nor waits for them."""
        predecessor = None if job.is_freed else self.predecessor(job)
        return not job.is_freed and (predecessor is None or predecessor.is_freed)

    def has(self, job: Job) -> bool:
        """Tell whether the board has a job in this state; True for a held job, which the board need not have."""
        if job.id in self.jobs:
            return True
        if job.state is State.QUEUED:
            return job.order in self.line(shape_of(job))
        if job.waits_for_queue:
            return job.order in self.blocked.get(shape_of(job), ())
        return job.state is State.HELD or job.id in self.dependencies

    def know(self, job: Job) -> None:
        """Keep a queued, blocked or held job whole, instead of the one kept longest; heads stay."""
        if job.id in self.jobs:
            return
        self._keep_near(job)
        if len(self._near) > self._near_max:
            pinned = {head.job for head in self.heads.values()}
            gone = next((id_ for id_ in self._near if id_ not in pinned and id_ != job.id), None)
            if gone is not None:
                del self._near[gone], self.jobs[gone]

    def _keep_near(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._near[job.id] = None

    def load(self, state: State, shape: Shape, orders: Sequence[int]) -> None:
        """Set the queued or blocked jobs of a shape, sorted by position, as they are stored.

        Call it once per shape on an empty board, and `index` after the last.
        """
        if state is State.QUEUED:
            names, amounts = amounts_of(shape[1])
            self._request_class(shape[0], shape[2], names).extend(amounts, orders, shape[2], is_indexed=False)
        else:
            self.blocked[shape] = SortedOrders(orders)

    def index(self, moved: Mapping[int, int] | None = None) -> None:
        """Build the indexes of all loaded jobs; `moved` has the ids of those that were moved, by rank."""
        self.ranks.moved = dict(moved or {})
        self._line = SortedOrders(sorted(order for _, line in self.shapes() for order in line))
        for request_class in self.request_classes():
            request_class.index_all()

    def _block(self, job: Job) -> None:
        shape = shape_of(job)
        if shape not in self.blocked:
            self.blocked[shape] = SortedOrders()
        self.blocked[shape].add(job.order)
        if job.reason is not None:
            self.reasons[shape] = job.reason

    def _unblock(self, job: Job) -> None:
        shape = shape_of(job)
        self.blocked[shape].remove(job.order)
        if not self.blocked[shape]:
            del self.blocked[shape]
            self.reasons.pop(shape, None)

    def _request_class(self, queue: str, constraints: Constraints, names: tuple[str, ...]) -> RequestClass:
        constraints = self.groups.only_limited(constraints)
        request_classes = self._request_classes.setdefault(queue, {})
        request_class = request_classes.get((constraints, names))
        if request_class is None:
            request_class = request_classes[constraints, names] = RequestClass(queue, constraints, names)
        return request_class

    def _forget(self, job: Job) -> None:
        self._near.pop(job.id, None)
        if job.state in HOLDING:
            assert job.placement is not None
            del self.holding[job.id], self._held_by[job.placement.worker][job.id]
            if self.counts(job):
                self._count(job, taking=False)
            self.prefetch.remove(job)
        elif job.state is State.QUEUED:
            names, amounts = amounts_of(job.spec.request)
            request_class = self._request_class(job.spec.queue, job.spec.constraints, names)
            request_class.remove(amounts, job.order, job.spec.constraints)
            request_classes = self._request_classes[job.spec.queue]
            if not request_class.count and len(request_classes) > REQUEST_CLASSES_KEPT:
                # Otherwise the empty class is kept, as most come back.
                del request_classes[request_class.constraints, names]
            self._line.remove(job.order)
        elif job.waits:
            self.timed.pop(job.id, None)
            if job.waits_for_queue:
                self._unblock(job)

    def _end_waits(self, old: Job, job: Job) -> None:
        """Forget what a job waits for no longer; a delay that goes on keeps its beginning."""
        if old.waits_for_jobs and not job.waits_for_jobs:
            self.dependencies.drop(job.id)
        elif old.waits_for_jobs and (old.spec.queue, old.token) != (job.spec.queue, job.token):
            self.dependencies.move(job.id, job.spec.queue, job.token)
        if old.for_time is not None and (job.for_time is None or job.state is not State.WAITING):
            self.start_times.remove(job.id)

    def forget_head(self, id_: int) -> None:
        """Let a job that asks for something else now, or was moved, wait anew: nothing is kept for it yet."""
        self.kept.pop(id_, None)
        for queue in [queue for queue, head in self.heads.items() if head.job == id_]:
            del self.heads[queue]

    def set_group_limit(self, name: str, limit: GroupLimit | None) -> None:
        """Limit what the jobs of a group hold at once, or lift the limit; no job that runs is ended."""
        was_limited = name in self.group_limits
        self.groups.set(name, limit, (job for job in self.holding.values() if self.counts(job)))
        if was_limited != (limit is not None):
            self._classify_again(name)

    def _classify_again(self, group: str) -> None:
        """Put the queued jobs of a group into other request classes: it has a limit now, or has none any more."""
        for queue, request_classes in self._request_classes.items():
            for (constraints, names), request_class in [*request_classes.items()]:
                moved = []
                if group in names_in(constraints):
                    del request_classes[constraints, names]
                    moved = [(amounts_of(shape[1])[1], shape[2], line) for shape, line in request_class.shapes()]
                elif group in request_class.groups:
                    moved = request_class.take_out(group)
                for amounts, own, line in moved:
                    self._request_class(queue, own, names).extend(amounts, [*line], own)

    def _count(self, job: Job, *, taking: bool, in_groups: bool = True) -> None:
        assert job.placement is not None
        if in_groups and self.groups.limits:
            self.groups.count(job, taking=taking)
        worker = self.workers.get(job.placement.worker)
        if worker is None:
            return
        for ledger in (worker.machine, worker.offers.get(job.spec.queue)):
            if ledger is not None:
                (ledger.take if taking else ledger.give)(job.placement.allocation)

    def set_worker(self, info: WorkerInfo, *, online: bool, now: float, heard: float = 0.0) -> None:
        """Add or replace a worker that connected or changed, and count its devices again.

        For an offline worker `heard` says when it was last heard; its leases count from then.
        """
        said, info = info, with_templates(info, self.templates)
        capacity = machine_capacity(info)
        known = self.workers.get(info.name)
        offers = offer_ledgers(info, capacity, known.offers if known else {})
        since = known.since if known and known.online == online else now
        drained = known is not None and known.drained
        unrecorded = known.unrecorded if known is not None else set()
        offered = known.offered if known is not None else {}
        machine = Ledger(capacity, drained=drained_of(info.devices))
        max_fit = max_fits(machine, offers)
        machine.occupy(info.used_by_others)
        self.workers[info.name] = WorkerState(
            info,
            said,
            online,
            since,
            machine,
            offers,
            max_fit,
            drained,
            heard,
            unrecorded=unrecorded,
            offered=offered,
        )
        self.workers[info.name].earlier_boots = known.earlier_boots if known is not None else {}
        self._note_offers()
        for job in self.held_by(info.name):
            if self.counts(job):
                self._count(job, taking=True, in_groups=False)

    def set_template(self, queue: str, template: QueueTemplate | None, now: float) -> None:
        """Define a queue at the broker, or delete it; the workers that have its labels offer it from now on."""
        self.templates.pop(queue, None)
        if template is not None:
            self.templates[queue] = template
        for state in [*self.workers.values()]:
            self.set_worker(state.said, online=state.online, now=now, heard=state.heard)

    def note_boots(self, worker: str, heard: float) -> None:
        """Note when the boots of a worker's attempts were last heard, now that the worker speaks from another boot."""
        state = self.workers[worker]
        placed_in = {job.placement.boot for job in self.held_by(worker) if job.placement is not None}
        state.earlier_boots = {b: state.earlier_boots.get(b, heard) for b in placed_in if b != state.info.boot}

    def remove_worker(self, worker: str) -> None:
        """Remove a worker, which must hold nothing."""
        assert not self.held_by(worker), f"{worker} holds jobs"
        del self.workers[worker]
        self._note_offers()
        self.awaited.discard(worker)

    def held_by(self, worker: str) -> list[Job]:
        """Return the jobs that hold devices of a worker."""
        return [*self._held_by.get(worker, {}).values()]

    def holders(self, worker: str, resource: str) -> list[Job]:
        """Return the jobs that hold some of a resource on a worker."""
        held = (job for job in self.held_by(worker) if not job.is_freed)
        return [job for job in held if job.placement is not None and resource in job.placement.allocation]

    def request_classes(self, queue: str | None = None) -> Iterator[RequestClass]:
        """Yield the request classes of the queued jobs, of one queue or of all."""
        for name in self._request_classes if queue is None else (queue,):
            yield from self._request_classes.get(name, {}).values()

    def shapes(self) -> Iterator[tuple[Shape, SortedOrders]]:
        """Yield every shape that has queued jobs, with their positions."""
        for request_class in self.request_classes():
            yield from request_class.shapes()

    def line(self, shape: Shape) -> SortedOrders:
        """Return the positions of the queued jobs of a shape."""
        names, amounts = amounts_of(shape[1])
        of_queue = self._request_classes.get(shape[0], {})
        request_class = of_queue.get((self.groups.only_limited(shape[2]), names))
        return SortedOrders() if request_class is None else request_class.line(amounts, shape[2])

    def request_class_of(self, job: Job) -> RequestClass:
        """Return the request class of a queued job."""
        return self._request_class(job.spec.queue, job.spec.constraints, amounts_of(job.spec.request)[0])

    def unfinished(self, queue: str) -> int:
        """Return how many jobs of a queue run or will still run."""
        whole = sum(job.spec.queue == queue for job in self.holding.values())
        whole += self.dependencies.in_queue(queue)
        whole += sum(job.spec.queue == queue and job.waits == (job.for_time,) for job in self.timed.values())
        return whole + self.queued(queue) + sum(len(line) for shape, line in self.blocked.items() if shape[0] == queue)

    def queued(self, queue: str | None = None) -> int:
        """Return how many jobs are queued, in one queue or in all."""
        if queue is None:
            return len(self._line)
        return sum(request_class.count for request_class in self.request_classes(queue))

    @property
    def positions(self) -> SortedOrders:
        """The positions of all queued jobs, of paused queues or not; not to be changed."""
        return self._line

    def next_ids(self, most: int) -> list[int]:
        """Return the ids of the next queued jobs, at most `most`."""
        return [self.id_at(order) for order in self._line.upto(most)]

    def id_at(self, order: int) -> int:
        """Return the id of the unfinished job at a queue position."""
        return self.ranks.id_at(order)


def _holder(job: Job) -> AttemptId | None:
    """Return the newest attempt of a job if it holds devices or will; None otherwise."""
    return job.attempt_id if job.state in HOLDING and not job.is_freed else None


def _likeness(job: Job) -> tuple[State, int, int, int, int]:
    """Return a key that is equal for jobs of one state, shape and priority; quick, so equal jobs may differ in it."""
    spec = job.spec
    return job.state, id(spec.queue), id(spec.request), id(spec.constraints), job.priority
