"""A scene: a picture of a board from which the queue is played forward. Making it costs little more than its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from grassq.core.model import Job, QueueTemplate, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Head, Kept, ReservationPolicy
from grassq.core.planner.limits.attempt_times import AttemptTimes
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.planner.workers import WorkerState

#: How many queued jobs are played at most; the estimates of later ones come from the throughput of the play.
JOBS_AHEAD_MAX = 400


class WorkerPicture(Struct, frozen=True):
    """A worker as it is on a board, without what it holds."""

    said: WorkerInfo
    online: bool
    drained: bool
    has_unrecorded: bool


class Scene(Struct, kw_only=True):
    """What a play starts from."""

    #: The broker's monotonic clock, and the time of day.
    now: float
    wall: float
    workers: Sequence[WorkerPicture]
    templates: Mapping[str, QueueTemplate]
    paused: Mapping[str, str]
    patience: ReservationPolicy
    heads: Mapping[str, Head]
    kept: Mapping[int, Kept]
    #: When attempts began, and the limits of groups.
    times: AttemptTimes = field(default_factory=AttemptTimes)
    group_limits: Mapping[str, GroupLimit] = {}
    #: Nothing starts before this time, because a new broker waits for its workers; why nothing starts at all.
    awaited_until: float = 0.0
    stopped: str | None = None
    #: The jobs that hold devices, those that wait for a time only, and the first queued ones.
    holding: Sequence[Job] = ()
    timed: Sequence[Job] = ()
    queued: Sequence[Job] = ()
    #: How many jobs of each shape are queued behind those in `queued`.
    behind: dict[Shape, int] = field(default_factory=dict)

    def board(self) -> Board:
        """Return a new board like the one in the picture."""
        board = Board(self.paused, self.patience)
        board.templates = dict(self.templates)
        for worker in self.workers:
            board.set_worker(worker.said, online=worker.online, now=self.wall)
            state = board.workers[worker.said.name]
            state.drained = worker.drained
            state.unrecorded = {(0, 0)} if worker.has_unrecorded else set()
        for job in self.holding:
            board.put(job)
        board.times.carry_over(self.times, board.holds)
        for name, limit in self.group_limits.items():
            board.set_group_limit(name, limit)
        board.put_new(self.queued)
        board.heads = {queue: head for queue, head in self.heads.items() if head.job in board.jobs}
        board.kept = {job: kept for job, kept in self.kept.items() if job in board.jobs}
        return board

    def with_worker(self, name: str, said: WorkerInfo) -> Scene:
        """Return the scene with a worker that says something else of itself."""
        workers = [replace(each, said=said) if each.said.name == name else each for each in self.workers]
        return replace(self, workers=workers)

    def with_job(self, job: Job) -> Scene:
        """Return the scene with one more queued job, at its place in the line."""
        return replace(self, queued=sorted([*self.queued, job], key=_by_id))


def picture(board: Board, now: float, wall: float, queued: Sequence[Job]) -> Scene:
    """Return a picture of a board; `queued` are the jobs of `first_queued`, whole."""
    counts: dict[Shape, int] = {}
    for job in queued:
        counts[shape_of(job)] = counts.get(shape_of(job), 0) + 1
    behind = {shape: len(line) - counts.get(shape, 0) for shape, line in board.shapes()}
    return Scene(
        now=now,
        wall=wall,
        workers=[_worker(board.workers[name]) for name in sorted(board.workers)],
        templates=dict(board.templates),
        paused=dict(board.paused),
        patience=board.patience,
        heads=dict(board.heads),
        kept=dict(board.kept),
        times=board.times.copy(),
        group_limits=dict(board.group_limits),
        awaited_until=board.awaited_until if board.awaits(now) else 0.0,
        stopped=_stopped(board),
        holding=[*board.holding.values()],
        timed=[job for job in board.timed.values() if not job.waits_for_queue],
        queued=sorted(queued, key=_by_id),
        behind={shape: count for shape, count in behind.items() if count > 0},
    )


def first_queued(board: Board, most: int = JOBS_AHEAD_MAX) -> list[int]:
    """Return the ids of the queued jobs to play: the first of each shape whose queue is not paused.

    Each shape gets the same share, so that a long line in one queue does not hide the jobs of another. What is left of
    the shares goes to the shapes with the most jobs.
    """
    lines = [line for shape, line in board.shapes() if not board.is_paused(shape[0])]
    share = max(1, most // max(1, len(lines)))
    orders = {order for line in lines[:most] for order in line.upto(share)}
    for line in sorted(lines, key=len, reverse=True):
        if len(orders) < most:
            orders.update(line.upto(share + most - len(orders))[share:])
    return [board.id_at(order) for order in sorted(orders)]


def _worker(worker: WorkerState) -> WorkerPicture:
    return WorkerPicture(worker.said, worker.online, worker.drained, bool(worker.unrecorded))


def _stopped(board: Board) -> str | None:
    if board.unreconciled:
        return (
            f"the store was restored from a backup, and {', '.join(sorted(board.unreconciled))} may have run jobs since"
        )
    return None


def _by_id(job: Job) -> tuple[int, int]:
    # Shapes in a row are put together, and positions of one shape must grow.
    return job.order, job.id
