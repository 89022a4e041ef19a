"""A forecast: many plays of one scene, and the interval of each start and end that follows from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from math import exp, inf, isinf

from msgspec import Struct

from grassq.core.forecast.draws import logit, uniform
from grassq.core.forecast.history import Estimate, Lens, RunHistory, elapsed_of, is_stopped
from grassq.core.forecast.likeness import Kind
from grassq.core.forecast.play import Played, play
from grassq.core.forecast.run_times import RunTimes, spread_of
from grassq.core.forecast.scene import Scene
from grassq.core.forecast.stretch import SideFactors, Stretch
from grassq.core.model import FINAL, HOLDING, Job, Placement, State
from grassq.core.planner.board import EVERYTHING
from grassq.core.planner.explain import explain
from grassq.core.planner.request_classes import Shape, shape_of

#: The share of starts and ends that an interval is meant to hold.
SHARE = 0.8
PLAYS_MAX = 64
#: Where the low end, the middle and the high end of an interval are.
_SHARES = ((1.0 - SHARE) / 2.0, 0.5, (1.0 + SHARE) / 2.0)
#: How much the rate of starts behind the played jobs may differ from the rate of a play: 80 % are within 12 %.
RATE_SPREAD = 0.05
#: Seeds of the kinds of draws.
_RUN, _SHIFT, _RATE = 1, 2, 3
_PRIME = (1 << 61) - 1

#: Called with the number of plays so far; True ends the forecast. Core reads no clock, so this is passed in.
Enough = Callable[[int], bool]


class Interval(Struct, frozen=True):
    """The low end, the middle and the high end of a time, in seconds since the epoch."""

    low: float
    likely: float
    high: float


class JobForecast(Struct, frozen=True, kw_only=True):
    """When a job starts and ends; where there is no estimate, `why` says the reason."""

    starts: Interval | None = None
    ends: Interval | None = None
    basis: str = ""
    #: How many like runs the run time rests on.
    count: int = 0
    why: str | None = None
    where: Placement | None = None


class Forecast:
    """The plays of one scene, and what is asked of them."""

    def __init__(
        self, scene: Scene, lens: Lens, plays: list[Played], known: Mapping[int, Estimate], stretch: Stretch
    ) -> None:
        """Keep at least one play; `known` has the estimates that the plays used."""
        self.scene, self.plays = scene, plays
        self._lens, self._known, self._stretch = lens, known, stretch
        self._running = sum(job.state is State.RUNNING for job in scene.holding)
        self._ids: dict[Shape, list[int]] = {}
        for job in scene.queued:
            self._ids.setdefault(shape_of(job), []).append(job.id)
        self._orders = sorted(job.order for job in scene.queued)
        self._knows_all = all(known[job.id].level != "any" for job in scene.holding if job.id in known)
        #: By shape: how many of its jobs start in each play. Counted once, since an answer has many jobs of a shape.
        self._started: dict[Shape, list[int]] = {}

    def of(self, job: Job, place: int = 0) -> JobForecast:
        """Return the forecast of a job; `place` is its place among the queued jobs of its shape, from 0 on."""
        if job.state in FINAL:
            return JobForecast(why=f"the job has ended ({job.state})")
        if (stopped := self._stopped(job)) is not None:
            return JobForecast(why=stopped)
        like = self._like(job)
        if job.state in HOLDING and job.id in self.plays[0].starts:
            return self._of_holding(job, like)
        count = 0 if like is None else like.count
        if (starts := self._starts(job, place)) is None:
            return JobForecast(why=self._why_never(job), count=count)
        at, basis, where = self._interval(starts, self._stretch.starts), self._basis(like, job), self._where(job)
        if like is None:
            return JobForecast(
                starts=at, basis=basis, why="no estimate of the end yet: no job like it has ended", where=where
            )
        ends = self._interval(self._ends(job, starts, like), self._stretch.ends)
        return JobForecast(starts=at, ends=ends, basis=basis, count=count, where=where)

    def over(self, jobs: Iterable[tuple[Job, int]]) -> tuple[Interval | None, int]:
        """Return when the last of some jobs ends, each with its place; and how many were left out without an estimate.

        Of jobs behind the played ones, the last of each shape stands for all of its shape.
        """
        last, unknown = [-inf] * len(self.plays), 0
        for job, place in self._last_ones(jobs):
            like = self._like(job)
            starts = None if like is None or self._stopped(job) else self._starts(job, place)
            ends = None if starts is None or like is None else self._ends(job, starts, like)
            if ends is None or any(map(isinf, ends)):
                unknown += 1
            else:
                last = [*map(max, last, ends)]
        return None if any(map(isinf, last)) else self._interval(last, self._stretch.ends), unknown

    def everything(self) -> Interval | None:
        """Return when all jobs have ended that run or can start; None if that is not known."""
        last: list[float] = []
        for number, played in enumerate(self.plays):
            ends = [end for end in played.ends.values() if not isinf(end)]
            behind = [
                _doubted(played, played.start_behind(shape, count - 1), number)
                for shape, count in self._unplayed(played).items()
            ]
            if not ends or None in behind:
                return None
            usual = sum(max(0.0, played.ends[id_] - at) for id_, at in played.starts.items() if played.ends[id_] < inf)
            last.append(max([*ends, *(at + usual / len(ends) for at in behind if at is not None)]))
        return self._interval([self._wall(at) for at in last], self._stretch.ends)

    def mean_wait_s(self) -> float | None:
        """Return how long the queued jobs that are played wait from now on, on average; None if none starts."""
        waits = [
            played.starts[job.id] - played.began
            for played in self.plays
            for job in self.scene.queued
            if job.id in played.starts
        ]
        return sum(waits) / len(waits) if waits else None

    def _last_ones(self, jobs: Iterable[tuple[Job, int]]) -> list[tuple[Job, int]]:
        """Return the jobs that may end last: of those behind the played ones, the last of each shape."""
        found: list[tuple[Job, int]] = []
        behind: dict[Shape, tuple[Job, int]] = {}
        for job, place in jobs:
            if job.state in FINAL:
                continue
            if job.state is not State.QUEUED or job.id in self.plays[0].starts:
                found.append((job, place))
            elif (shape := shape_of(job)) not in behind or behind[shape][1] < place:
                behind[shape] = job, place
        return [*found, *behind.values()]

    def _unplayed(self, played: Played) -> dict[Shape, int]:
        """Return how many jobs of each shape did not start in a play, of queues that are not paused."""
        found = {shape: count for shape, count in self.scene.behind.items() if not self._is_paused(shape[0])}
        for job in self.scene.queued:
            if job.id not in played.starts and not self._is_paused(job.spec.queue):
                found[shape_of(job)] = found.get(shape_of(job), 0) + 1
        return found

    def _like(self, job: Job) -> Estimate | None:
        """Return the estimate of a job from like runs; None if there are none."""
        found = self._known.get(job.id) or self._lens.estimate(job)
        return None if found is None or found.level == "any" else found

    def _of_holding(self, job: Job, like: Estimate | None) -> JobForecast:
        played = self.plays[0]
        began, where = self._wall(played.starts[job.id]), played.where[job.id]
        starts = Interval(began, began, began)
        if is_stopped(job):
            return JobForecast(starts=starts, why="no estimate: the job is suspended", where=where)
        if like is None:
            return JobForecast(starts=starts, why="no estimate yet: no job like it has ended", where=where)
        if isinf(played.ends[job.id]):
            return JobForecast(starts=starts, why=f"no estimate: worker {where.worker} is out of touch", where=where)
        elapsed, now = elapsed_of(job, self.scene.wall), self.scene.wall
        most = max(limit_of(job), elapsed)
        low, likely, high = (now - elapsed + min(like.times.quantile(share, elapsed), most) for share in _SHARES)
        ends = Interval(*self._stretch.ends.applied(low, likely, high, now))
        return JobForecast(starts=starts, ends=ends, basis=like.basis, count=like.count, where=where)

    def _where(self, job: Job) -> Placement | None:
        return self.plays[0].where.get(job.id)

    def _starts(self, job: Job, place: int) -> list[float] | None:
        """Return when a job starts in each play, in time of day; None if it does not start in one of them."""
        found: list[float] = []
        shape = shape_of(job)
        for number, played in enumerate(self.plays):
            at = played.starts.get(job.id)
            if at is None and job.state is State.QUEUED:
                started = self._started_of(shape)[number]
                at = _doubted(played, played.start_behind(shape, max(0, place - started)), number)
            if at is None:
                return None
            found.append(self._wall(at))
        return found

    def _started_of(self, shape: Shape) -> list[int]:
        """Return how many of the queued jobs of a shape start in each play."""
        if (found := self._started.get(shape)) is None:
            ids = self._ids.get(shape, ())
            found = self._started[shape] = [sum(id_ in played.starts for id_ in ids) for played in self.plays]
        return found

    def _ends(self, job: Job, starts: list[float], like: Estimate) -> list[float]:
        """Return when a job ends in each play, in time of day."""
        ends = []
        for number, (played, start) in enumerate(zip(self.plays, starts, strict=True)):
            known = played.ends.get(job.id)
            ends.append(start + drawn(like, job, number, 0.0) if known is None else self._wall(known))
        return ends

    def _wall(self, mono: float) -> float:
        return self.scene.wall + mono - self.scene.now

    def _interval(self, times: list[float], factors: SideFactors) -> Interval:
        """Return the interval that holds SHARE of what the plays say; spans from now on are compared, not dates."""
        now = self.scene.wall
        low, likely, high = spread_of([max(0.0, at - now) for at in times], SHARE)
        return Interval(*factors.applied(now + low, now + likely, now + high, now))

    def _is_paused(self, queue: str) -> bool:
        return EVERYTHING in self.scene.paused or queue in self.scene.paused

    def _stopped(self, job: Job) -> str | None:
        """Return why nothing can be said of a job that does not hold devices."""
        if job.state in HOLDING:
            return None
        if job.state is State.HELD:
            return "no estimate: the job is held"
        if job.waits_for_queue:
            return f"no estimate: {job.reason or 'the job waits for its queue'}"
        if self.scene.stopped is not None:
            return f"no estimate: {self.scene.stopped}"
        if self._is_paused(job.spec.queue):
            what = f"queue {job.spec.queue}" if job.spec.queue in self.scene.paused else "everything"
            return f"no estimate: {what} is paused"
        return None

    def _why_never(self, job: Job) -> str:
        """Return why a job does not start in a play, though all that runs there ends."""
        played = self.plays[0]
        if any(job.id not in self._known and played.where[job.id].worker for job in self.scene.holding):
            return "no estimate yet: no job like those that run now has ended"
        board = played.board
        if board is None or job.id not in board.jobs:
            return "no estimate: too few jobs start to tell a rate"
        blockers = explain(board, board.jobs[job.id], self.scene.now)
        if not blockers:
            return "no estimate"
        stopped = [each.id for each in self.scene.holding if is_stopped(each) and each.id in blockers[0].holders]
        return f"no estimate: {blockers[0].why}" + (f"; job {stopped[0]} is suspended" if stopped else "")

    def _basis(self, like: Estimate | None, job: Job) -> str:
        words = [like.basis] if like is not None else []
        ahead = bisect_left(self._orders, job.order)
        if self._running:
            words.append(f"{self._running} running {_jobs(self._running)}")
        if ahead:
            words.append(f"{ahead} queued {_jobs(ahead)} ahead")
        if not self._knows_all:
            words.append("some of them without like runs")
        if any(job.id not in played.starts for played in self.plays):
            words[-1:] = [f"more than {len(self.scene.queued)} jobs ahead: estimate from throughput"]
        return ", ".join(words)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


def _doubted(played: Played, at: float | None, number: int) -> float | None:
    """Return a start that continues the rate of a play, drawn earlier or later: the rate may not last."""
    if at is None or played.broken_off is None:
        return at
    return played.broken_off + (at - played.broken_off) * exp(RATE_SPREAD * logit(uniform(_RATE, number)))


def drawn(estimate: Estimate, job: Job, number: int, elapsed_s: float) -> float:
    """Return the whole run time of a job in a play; in one play all jobs of a kind differ together."""
    shift = estimate.times.shift(uniform(_SHIFT, number, _hash(estimate.kind)), estimate.common)
    share = uniform(_RUN, number, job.id)
    lasts = estimate.times.draw(share, elapsed_s=elapsed_s, shift=shift, common=estimate.common)
    return min(lasts, max(limit_of(job), elapsed_s))


def limit_of(job: Job) -> float:
    """Return the seconds after which an attempt of a job is ended, as far as it is known; infinity without a limit."""
    placed = None if job.placement is None else job.placement.time_limit_s
    return placed or job.spec.time_limit_s or inf


def _hash(kind: Kind) -> int:
    """Return a number that only the kind decides: the built-in hash of text differs between processes."""
    return int.from_bytes("\0".join(kind).encode("utf-8", "backslashreplace"), "little") % _PRIME


def forecast(
    scene: Scene,
    history: RunHistory,
    enough: Enough,
    *,
    known: Mapping[int, RunTimes] | None = None,
    stretch: Stretch | None = None,
    is_late: Callable[[], bool] | None = None,
) -> Forecast:
    """Play a scene until it is enough, at most PLAYS_MAX times and at least once; `is_late` breaks a play off.

    `known` has the run times of jobs that are known otherwise, such as from a progress bar.
    """
    lens = history.lens((job, elapsed_of(job, scene.wall)) for job in scene.holding if job.state is State.RUNNING)
    estimates: dict[int, Estimate] = {}
    for job in (*scene.holding, *scene.timed, *scene.queued):
        if known is not None and job.id in known:
            estimates[job.id] = Estimate(known[job.id], ("job", str(job.id)), "progress", 1, 0.0)
        elif (found := lens.estimate(job)) is not None:
            estimates[job.id] = found
    plays: list[Played] = []
    while not plays or (len(plays) < PLAYS_MAX and not enough(len(plays))):
        plays.append(play(scene, _lasts(scene, estimates, len(plays)), is_late=is_late))
        if len(plays) > 1:
            plays[-1].board = None  # the first one tells why a job does not start
    return Forecast(scene, lens, plays, estimates, stretch or Stretch())


def _lasts(scene: Scene, estimates: Mapping[int, Estimate], number: int) -> Callable[[Job], float]:
    def lasts(job: Job) -> float:
        estimate = estimates.get(job.id)
        return inf if estimate is None else drawn(estimate, job, number, elapsed_of(job, scene.wall))

    return lasts
