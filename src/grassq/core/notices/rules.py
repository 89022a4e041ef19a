"""The rules of the settings: which ends of jobs are told, and to which target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from grassq.core.model import Job, State
from grassq.core.names import shown
from grassq.core.notices.targets import Target, read_target
from grassq.core.syntax.options import closest
from grassq.errors import BadInput

#: What can be told: each end of a job, each failure, the end of a sweep, the first failure, and that a queue is empty.
Occasion = Literal["job", "failed", "sweep", "first-failure", "queue-empty"]
OCCASIONS: tuple[str, ...] = get_args(Occasion)
#: The most rules of a broker.
RULES_MAX = 32


class NotifyRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[notify]]` of grass.toml: on these occasions tell this target, of one queue or one name only."""

    on: tuple[str, ...]
    to: str
    queue: str | None = None
    #: A job's name; `*` stands for any characters.
    name: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a rule that no end of a job can concern."""
        if not self.on:
            raise ValueError(f"`on` names no occasion; the occasions are {', '.join(OCCASIONS)}")
        for word in self.on:
            if word not in OCCASIONS:
                near = closest(word, OCCASIONS)
                hint = f"did you mean {near}?" if near else f"the occasions are {', '.join(OCCASIONS)}"
                raise ValueError(f"`on` has {shown(word)}, not an occasion; {hint}")
        if self.name is not None and self.on == ("queue-empty",):
            raise ValueError("`name` selects jobs and sweeps; a rule for queue-empty takes `queue`")
        try:
            read_target(self.to, "`to`")
        except BadInput as error:
            raise ValueError(str(error)) from None

    @property
    def target(self) -> Target:
        """The target."""
        return read_target(self.to)

    def concerns(self, occasion: Occasion, queue: str, name: str | None) -> bool:
        """Tell whether this rule is about an occasion of a job, a sweep or a queue."""
        if occasion not in self.on or self.queue not in (None, queue):
            return False
        return self.name is None or occasion == "queue-empty" or (name is not None and _matches(self.name, name))


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def wants(rules: Sequence[NotifyRule], job: Job) -> bool:
    """Tell whether the end of this job may have to be told."""
    if not rules or job.spec.notify:
        return bool(job.spec.notify)
    return any(rule.concerns(occasion, job.spec.queue, job.name) for occasion in _possible(job) for rule in rules)


def _possible(job: Job) -> Iterable[Occasion]:
    """Return the occasions that the end of a job may be."""
    yield "job"
    yield "queue-empty"
    if job.name is not None:
        yield "sweep"
    # Of any end: the next failure after the queue was empty is a first one again.
    yield "first-failure"
    if job.state is State.FAILED:
        yield "failed"
