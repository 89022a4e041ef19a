"""Actions and views that the broker does in steps, done in one batch: for tests that have few jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grassq.broker import selection, views
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import Action, BulkChange, BulkResult, Next
from grassq.broker.batch import Batch
from grassq.broker.selection import Reading
from grassq.core.syntax.selectors import ByState, Selector

T = TypeVar("T")

_keys = (f"at-once-{number}" for number in itertools.count())


def change(
    batch: Batch, action: Action, selectors: Sequence[Selector], key: str | None = None, digest: bytes = b"d"
) -> BulkResult:
    """Do every step of an action in this batch."""
    required, chosen = bool(selectors), selectors or [ByState(("failed",))]
    answer = BulkChange(action, chosen, key=key or next(_keys), digest=digest, required=required).start(batch)
    while isinstance(answer, Next):
        answer = answer.handler(batch)
    return answer


def kill(
    batch: Batch, selectors: Sequence[Selector], grace_s: float | None = None, unstarted: bool = False
) -> BulkResult:
    """End jobs."""
    return change(batch, actions.KillJobs(grace_s, unstarted), selectors)


def hold(batch: Batch, selectors: Sequence[Selector]) -> BulkResult:
    """Hold jobs."""
    return change(batch, actions.HoldJobs(), selectors)


def release(batch: Batch, selectors: Sequence[Selector]) -> BulkResult:
    """Release jobs."""
    return change(batch, actions.ReleaseJobs(), selectors)


def set_priority(batch: Batch, selectors: Sequence[Selector], priority: int) -> BulkResult:
    """Set the priority of jobs."""
    return change(batch, actions.SetPriority(priority), selectors)


def rerun(batch: Batch, selectors: Sequence[Selector], key: str, digest: bytes, failed: bool = False) -> list[int]:
    """Submit jobs again; return the new ids."""
    return change(batch, actions.RerunFailed() if failed else actions.RerunJobs(), selectors, key, digest).ids


def clean(batch: Batch, selectors: Sequence[Selector], older_s: float | None, *, keep_logs: bool = False) -> BulkResult:
    """Remove finished jobs."""
    return change(batch, actions.CleanJobs(older_s, keep_logs=keep_logs), selectors)


def show(batch: Batch, selectors: Sequence[Selector]) -> dict[str, Any]:
    """Everything `show` tells."""
    if not selectors:
        return {**views.glance(batch)}
    return {**views.overview(batch), "jobs": _all(batch, selectors, views.show_page)}


def why(batch: Batch, selectors: Sequence[Selector]) -> dict[str, Any]:
    """Everything `why` tells."""
    return {"jobs": _all(batch, selectors, views.why_page)}


def _all(
    batch: Batch,
    selectors: Sequence[Selector],
    page: Callable[[Reading, Batch], tuple[list[T], Reading]],
) -> list[T]:
    reading, found = selection.begin(batch, selectors), list[T]()
    while not reading.is_over:
        some, reading = page(reading, batch)
        found += some
    return found
