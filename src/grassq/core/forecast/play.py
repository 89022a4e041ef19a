"""One play: the queue of a scene on a virtual clock, with the real planner and run times that are given.

The play does what the broker does after each end of a job: it asks the planner for a plan, places the jobs of the plan,
and keeps the heads and the kept room that the plan says. No other job is submitted meanwhile, and no suspended job is
told to go on; one that was told already goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from grassq.core.forecast.history import elapsed_of, is_stopped
from grassq.core.forecast.scene import JOBS_AHEAD_MAX, Scene
from grassq.core.model import Job, Placement, State
from grassq.core.planner.board import Board
from grassq.core.planner.plan import adopt, plan
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.planner.workers import WorkerState
from grassq.core.states import advance
from grassq.core.suspension.events import Regain
from grassq.core.suspension.room import regained

#: Returns the whole run time of a job that starts or runs already; inf if that is not known.
Lasts = Callable[[Job], float]
#: Plans at one moment: each places at least one job, or is the last.
PLANS_MAX = 1000
#: A rate of starts is told from this many starts on.
STARTS_FOR_RATE = 4


class Played(Struct):
    """What happened in a play, in seconds of the broker's monotonic clock."""

    began: float
    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    where: dict[int, Placement] = field(default_factory=dict)
    #: When the play was broken off, because the jobs that were played were running out; None if all was played.
    broken_off: float | None = None
    #: How many jobs of each shape started after the first moment.
    rates: dict[Shape, int] = field(default_factory=dict)
    #: The board at the end.
    board: Board | None = None

    def start_behind(self, shape: Shape, place: int) -> float | None:
        """Return about when the job starts that is at this place behind the played jobs of its shape."""
        if self.broken_off is None:
            return None
        span, own = self.broken_off - self.began, self.rates.get(shape, 0)
        every = sum(self.rates.values())
        if span <= 0.0 or every < STARTS_FOR_RATE:
            return None
        return self.broken_off + (place + 1) * span / (own if own >= STARTS_FOR_RATE else every)


class _Play:
    """A play in progress."""

    def __init__(self, scene: Scene, lasts: Lasts, most: int, is_late: Callable[[], bool] | None) -> None:
        self._scene, self._lasts, self._most, self._is_late = scene, lasts, most, is_late
        self._board = scene.board()
        self.played = Played(scene.now, board=self._board)
        #: (time, job): the end of a job that runs, or the time that a job waits for; 0 is only a time to plan again.
        self._coming: list[tuple[float, int]] = []
        self._timed = {job.id: job for job in scene.timed}
        #: Of the shapes that have more jobs than are played: how many of the played ones have not started.
        self._left = dict.fromkeys(scene.behind, 0)
        self._queued = {job.id for job in scene.queued}
        for job in scene.queued:
            if (shape := shape_of(job)) in self._left:
                self._left[shape] += 1
        self._left = {shape: count for shape, count in self._left.items() if count}
        self._wake = -inf
        #: The jobs whose processes are stopped: until it is told to go on, such a job has no end that is known.
        self._suspended = {job.id for job in scene.holding if is_stopped(job)}
        for job in scene.holding:
            if job.id in self._suspended:
                self.played.ends[job.id] = inf
                self._note(job, now=scene.now)

    def play(self) -> Played:
        """Play until every job has started and ended, or until the play is broken off."""
        scene, now = self._scene, self._scene.now
        for job in scene.holding:
            if self._board.predecessor(job) is None and job.id not in self._suspended:
                self._begin(job, now)
        for job in scene.timed:
            heappush(self._coming, (now + max(0.0, (job.ready_at or 0.0) - scene.wall), job.id))
        if scene.awaited_until > now:
            heappush(self._coming, (scene.awaited_until, 0))
        while True:
            if now >= scene.awaited_until and self._place(now):
                self.played.broken_off = now
                return self.played
            if not self._coming or self._coming[0][0] == inf:
                return self.played
            now = self._coming[0][0]
            while self._coming and self._coming[0][0] <= now:
                self._come(heappop(self._coming)[1], now)

    def _come(self, id_: int, now: float) -> None:
        if (timed := self._timed.pop(id_, None)) is not None:
            self._board.put(replace(timed, state=State.QUEUED, waits=()))
        elif id_:
            job = self._board.holding[id_]
            self._board.put(replace(job, state=State.SUCCEEDED))
            for held in self._board.held_by(_worker_of(job)):
                # A job that was placed behind this one takes over its devices.
                if held.placement is not None and held.placement.after == job.attempt_id:
                    self._begin(held, now)

    def _place(self, now: float) -> bool:
        """Place all that can be placed now; return True if the play is to be broken off."""
        board = self._board
        for job in regained(board):
            board.put(advance(job, Regain(), self._scene.wall))
            self._begin(job, now)
        for _ in range(PLANS_MAX):
            made = plan(board, now)
            for job_id, where in made.placements:
                job = board.jobs[job_id]
                placed = replace(job, state=State.RUNNING, placement=where, attempt=job.attempt + 1, started=None)
                board.put(placed, at=now)
                self._begin(placed, now)
            had_kept = bool(board.kept)
            adopt(board, made)
            # A worker's report that a job has started makes a broker plan again; only kept room makes a difference.
            if not made.more and not (made.placements and (made.kept or had_kept)):
                break
        ripe = [head.since + board.patience.wait_s for head in board.heads.values()]
        wake = min((at for at in ripe if at > now), default=inf)
        if wake not in (inf, self._wake):
            self._wake = wake
            heappush(self._coming, (wake, 0))
        if self._is_late is not None and self._is_late():
            return True
        return len(self.played.starts) >= self._most + len(self._scene.holding) or 0 in self._left.values()

    def _begin(self, job: Job, now: float) -> None:
        """Note that a job starts, goes on, or runs since before the play."""
        played, shape = self.played, shape_of(job)
        elapsed = elapsed_of(job, self._scene.wall)
        self._note(job, now)
        if now > played.began:
            played.rates[shape] = played.rates.get(shape, 0) + 1
        if job.id in self._queued and shape in self._left:
            self._left[shape] -= 1
        end = max(now, now - elapsed + self._lasts(job)) if self._is_heard(job) else inf
        played.ends[job.id] = end
        heappush(self._coming, (end, job.id))

    def _note(self, job: Job, now: float) -> None:
        """Note when a job starts or has started, and where."""
        began = now if job.started is None else self._scene.now - max(0.0, self._scene.wall - job.started)
        self.played.starts[job.id] = began
        assert job.placement is not None
        self.played.where[job.id] = job.placement

    def _is_heard(self, job: Job) -> bool:
        worker: WorkerState | None = self._board.workers.get(_worker_of(job))
        return worker is not None and worker.online


def _worker_of(job: Job) -> str:
    assert job.placement is not None
    return job.placement.worker


def play(scene: Scene, lasts: Lasts, most: int = JOBS_AHEAD_MAX, is_late: Callable[[], bool] | None = None) -> Played:
    """Play the queue of a scene forward; at most `most` jobs start, and none once `is_late` is true."""
    return _Play(scene, lasts, most, is_late).play()
