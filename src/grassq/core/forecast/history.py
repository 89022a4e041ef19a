"""The run times of jobs that have ended, by kind, and what they say of a job that has not."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from grassq.core.forecast.likeness import IN_WORDS, Kind, Level, kinds_of
from grassq.core.forecast.run_times import Run, RunTimes, fit_runs
from grassq.core.model import Job, Outcome, State

#: How many runs of each kind are kept, the newest ones, and how many kinds: the ones used last.
RUNS_KEPT = 100
KINDS_MAX = 5000
#: A kind with fewer runs is used only if no less like kind has as many.
ENOUGH_RUNS = 3
#: From this many runs on, a less like kind helps a more like one.
PRIOR_RUNS = 5
#: The part of the variance of less like runs that the jobs of one kind have in common.
LESS_LIKE_COMMON = 0.7


class Estimate(Struct, frozen=True):
    """What is known of the run time of a job."""

    times: RunTimes
    #: The most like kind of the job: jobs of one kind differ from the estimate together.
    kind: Kind
    level: Level
    count: int
    #: The part of the variance that they have in common. Of like runs it is the doubt about their middle. Of less like
    #: runs it is most: all jobs of a sweep take longer, or less long, than another sweep.
    common: float

    @property
    def basis(self) -> str:
        """On what the estimate rests, in words."""
        if self.level == "progress":
            return IN_WORDS[self.level]
        runs = "1 like run" if self.count == 1 else f"{self.count} like runs"
        return f"{runs} ({IN_WORDS[self.level]})"


class RunHistory:
    """Run times by kind of job, within bounds."""

    def __init__(self) -> None:
        #: The newest run comes last; so does the kind that was used last.
        self._runs: dict[Kind, list[Run]] = {}

    def add(self, job: Job) -> None:
        """Note how long a job ran that has ended."""
        run = run_of(job)
        if run is None:
            return
        for _, kind in kinds_of(job):
            runs = self._runs.pop(kind, [])
            runs.append(run)
            self._runs[kind] = runs[-RUNS_KEPT:]
        while len(self._runs) > KINDS_MAX:
            del self._runs[next(iter(self._runs))]

    def knows(self, kind: Kind) -> bool:
        """Tell whether there is a run of a kind."""
        return kind in self._runs

    def lens(self, running: Iterable[tuple[Job, float]] = ()) -> Lens:
        """Return what the history says of jobs now, while these jobs run; each has its seconds so far."""
        return Lens(self._runs, running)


class Lens:
    """What the history says of jobs at one moment; a running job says that its run time is longer."""

    def __init__(self, runs: dict[Kind, list[Run]], running: Iterable[tuple[Job, float]]) -> None:
        self._runs = runs
        self._unended: dict[Kind, list[Run]] = {}
        self._fitted: dict[tuple[Kind, Kind | None], RunTimes | None] = {}
        self._known: dict[tuple[Kind, ...], Estimate | None] = {}
        for job, elapsed_s in running:
            for _, kind in kinds_of(job):
                unended = self._unended.setdefault(kind, [])
                if len(unended) < RUNS_KEPT:
                    unended.append((elapsed_s, False))

    def estimate(self, job: Job) -> Estimate | None:
        """Return the estimate of a job from the most like kind that has enough runs; None if nothing has ended."""
        kinds = kinds_of(job)
        key = tuple([kind for _, kind in kinds])
        if key not in self._known:
            self._known[key] = self._best(kinds)
        return self._known[key]

    def _best(self, kinds: list[tuple[Level, Kind]]) -> Estimate | None:
        counts = [sum(ended for _, ended in self._runs.get(kind, ())) for _, kind in kinds]
        for enough in (ENOUGH_RUNS, 1):
            for at, (level, kind) in enumerate(kinds):
                if counts[at] >= enough and (enough == 1 or level != "any"):
                    less_like = zip(counts[at + 1 :], kinds[at + 1 :], strict=True)
                    helper = next((kind for count, (_, kind) in less_like if count >= PRIOR_RUNS), None)
                    times = self._fit(kind, helper)
                    common = LESS_LIKE_COMMON if at else 1.0 / (counts[at] + 1)
                    return None if times is None else Estimate(times, kinds[0][1], level, counts[at], common)
        return None

    def _fit(self, kind: Kind, helper: Kind | None) -> RunTimes | None:
        if (kind, helper) not in self._fitted:
            prior = None if helper is None else self._fit(helper, None)
            runs = [*self._runs.get(kind, ()), *self._unended.get(kind, ())]
            self._fitted[kind, helper] = fit_runs(runs, prior)
        return self._fitted[kind, helper]


def run_of(job: Job) -> Run | None:
    """Return how long a job ran, and whether it ended by itself; None if that says nothing about like jobs."""
    if job.finished is None or job.outcome not in _TELLING or (ran_s := job.ran_s(job.finished)) is None:
        return None
    return ran_s, job.state is not State.CANCELLED


#: A failed run counts like any other, since like jobs fail too; one that a limit ended, since like jobs have the limit.
#: A lost one says nothing.
_TELLING = frozenset({Outcome.EXITED, Outcome.SIGNALLED, Outcome.CANCELLED, Outcome.TIMED_OUT})


def elapsed_of(job: Job, now: float) -> float:
    """Return for how long a job has been running, without the time it was suspended; 0 if it has not started."""
    return (job.ran_s(now) or 0.0) if job.state is State.RUNNING else 0.0


def is_stopped(job: Job) -> bool:
    """Tell whether the processes of a job are stopped, so that it has no end until it is told to go on, or killed."""
    return job.suspension is not None and job.suspension.wants_stop and not job.cancel_requested
