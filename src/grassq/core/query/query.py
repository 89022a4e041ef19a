"""What a query asks of a job, and whether a job answers it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from grassq.core.model import FINAL, Job
from grassq.core.names import Tags
from grassq.core.resources.amounts import Request

#: Patterns that are kept compiled.
PATTERNS_MAX = 256

Operator = Literal[">", ">=", "<", "<=", "="]
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
_FINAL = frozenset(state.value for state in FINAL)


class JobFacts(Struct, frozen=True, gc=False):
    """What a query can ask of a job. A column that no query needs may be left at its default."""

    id: int
    state: str
    queue: str
    name: str | None = None
    priority: int = 0
    #: Seconds since the epoch.
    created: float = 0.0
    started: float | None = None
    finished: float | None = None
    #: The seconds for which its last attempt was suspended; None if it was not.
    suspended_s: float | None = None
    attempt: int = 0
    exit_code: int | None = None
    project: str | None = None
    worker: str | None = None
    request: Request = ()
    #: The words of the command, joined by blanks.
    command: str = ""
    tags: Tags = ()
    sweep: int | None = None


def facts_of(job: Job) -> JobFacts:
    """Return what a query can ask of a job."""
    return JobFacts(
        job.id,
        job.state.value,
        job.spec.queue,
        job.name,
        job.priority,
        job.created,
        job.started,
        job.finished,
        job.suspended_s or None,
        job.attempt,
        job.exit_code,
        job.spec.project,
        None if job.placement is None else job.placement.worker,
        job.spec.request,
        b" ".join(job.spec.command).decode("utf-8", "backslashreplace"),
        job.spec.tags,
        job.spec.sweep,
    )


#: The fields of JobFacts that need no other column than their own: up to the project.
PLAIN_COLUMNS = JobFacts.__struct_fields__.index("project") + 1
#: What is sorted or compared by under another name than that of the last field it needs.
COLUMN_OF = {
    "priority": "priority",
    "attempt": "attempt",
    "exit": "exit_code",
    "age": "created",
    "duration": "suspended_s",
}


def columns_up_to(*names: str) -> int:
    """Return how many of the first fields of JobFacts hold these, which may be keys of a comparison too."""
    return max(JobFacts.__struct_fields__.index(COLUMN_OF.get(name, name)) + 1 for name in names)


class Comparison(Struct, frozen=True, order=True):
    """A comparison: `priority>30`; amounts of resources in millionths, durations in seconds."""

    key: str
    operator: Operator
    value: float


class Columns(Struct, frozen=True):
    """Which columns of a job are needed."""

    #: How many of the first fields of JobFacts; with any of the columns below, all up to the project.
    first: int = PLAIN_COLUMNS
    #: The newest attempt.
    worker: bool = False
    request: bool = False
    #: The command and the options.
    spec: bool = False


class Query(Struct, frozen=True):
    """Which jobs are wanted. A part that is empty lets every job through."""

    states: frozenset[str] = frozenset()
    #: Patterns: `*` stands for any text, `?` for one character.
    queues: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    #: Each a key with its value, or a key alone.
    tags: frozenset[str] = frozenset()
    #: By the ids of the sweeps.
    sweeps: frozenset[int] = frozenset()
    #: Inclusive ranges.
    ids: tuple[tuple[int, int], ...] = ()
    #: How far back from the last job: `@` is 0, `@~1` is 1. The broker replaces these by ids.
    back: tuple[int, ...] = ()
    #: Jobs that have not ended, or ended in these last seconds.
    since_s: float | None = None
    bounds: frozenset[Comparison] = frozenset()
    #: Every one of them is part of the name or the command, in any case.
    texts: tuple[str, ...] = ()

    @property
    def columns(self) -> Columns:
        """The columns that `matches` looks at."""
        keys = {bound.key for bound in self.bounds}
        parts = {"name": self.names, "project": self.projects, "finished": self.since_s is not None}
        first = columns_up_to("queue", *(name for name, part in parts.items() if part), *keys & COLUMN_OF.keys())
        return Columns(
            first, bool(self.workers), bool(keys - JOB_NUMBERS.keys()), bool(self.texts or self.tags or self.sweeps)
        )

    @property
    def depends_on_time(self) -> bool:
        """Whether a job that does not change may begin or cease to match."""
        return self.since_s is not None or any(bound.key in ("age", "duration") for bound in self.bounds)

    def matches(self, job: JobFacts, now: float) -> bool:
        """Tell whether a job is wanted; `now` is in seconds since the epoch."""
        return (
            (not self.states or job.state in self.states)
            and (not self.queues or fits_any(self.queues, job.queue))
            and (not self.names or (job.name is not None and fits_any(self.names, job.name)))
            and (not self.workers or (job.worker is not None and fits_any(self.workers, job.worker)))
            and (not self.projects or (job.project is not None and fits_any(self.projects, job.project)))
            and (not self.tags or any(fits_any(self.tags, f"{k}={v}") or fits_any(self.tags, k) for k, v in job.tags))
            and (not self.sweeps or job.sweep in self.sweeps)
            and (not self.ids or any(low <= job.id <= high for low, high in self.ids))
            and (self.since_s is None or _is_recent(job, now - self.since_s))
            and (not self.bounds or all(_holds(bound, job, now) for bound in self.bounds))
            and (not self.texts or _contains(job, self.texts))
        )


def fits_any(patterns: frozenset[str], text: str) -> bool:
    """Tell whether a text fits one of some patterns."""
    return text in patterns or any(_pattern(each).fullmatch(text) for each in patterns if is_pattern(each))


def is_pattern(text: str) -> bool:
    """Tell whether a word stands for more than itself."""
    return "*" in text or "?" in text


@lru_cache(PATTERNS_MAX)
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern; each part between stars is tried once only, so no pattern takes long."""
    first, *others = ["".join(map(_character, part)) for part in re.split(r"\*+", text)]
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(first + middle + (f".*{others[-1]}" if others else ""), re.DOTALL)


def _character(character: str) -> str:
    return "." if character == "?" else re.escape(character)


def duration_of(job: JobFacts, now: float) -> float | None:
    """Return how long a job ran, or has run so far, without the time it was suspended; None if it has not started."""
    if job.started is None:
        return None
    return max(0.0, (now if job.finished is None else job.finished) - job.started - (job.suspended_s or 0.0))


#: The numbers of a job that can be compared; any other key of a comparison is a resource.
JOB_NUMBERS: dict[str, Callable[[JobFacts, float], float | None]] = {
    "priority": lambda job, now: job.priority,
    "attempt": lambda job, now: job.attempt,
    "exit": lambda job, now: job.exit_code,
    "age": lambda job, now: now - job.created,
    "duration": duration_of,
}


def _holds(bound: Comparison, job: JobFacts, now: float) -> bool:
    number = JOB_NUMBERS.get(bound.key)
    value = _asked(job.request, bound.key) if number is None else number(job, now)
    return value is not None and _COMPARE[bound.operator](value, bound.value)


def _asked(request: Request, resource: str) -> int:
    for name, amount in request:
        if name == resource:
            return amount
    return 0


def _is_recent(job: JobFacts, since: float) -> bool:
    return job.state not in _FINAL or (job.finished is not None and job.finished >= since)


def _contains(job: JobFacts, texts: tuple[str, ...]) -> bool:
    where = f"{job.name or ''}\n{job.command}".casefold()
    return all(text in where for text in texts)
