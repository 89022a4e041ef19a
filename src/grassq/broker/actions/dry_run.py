"""What a submission would do: how many jobs, where they could run now, and why not. Nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from grassq.broker import service, tokens
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import short_command, timestamp, word_text
from grassq.broker.service import Draft
from grassq.broker.tokens import Bearer
from grassq.broker.views import lacking
from grassq.core.model import Job, State, scoped_key
from grassq.core.planner.explain import Outlook
from grassq.core.resources.amounts import request_text

#: Commands that are named; more jobs are counted.
COMMANDS_SHOWN = 3


class DryRunDocument(TypedDict):
    """What a submission would do."""

    #: How many jobs would be queued, and the id of the first if nothing else is submitted before.
    count: int
    id: int
    queue: str
    state: State
    #: The amounts that each job asks for, in words.
    request: str
    #: The workers on which the first job could start now.
    workers: list[str]
    #: Why the first job would not start now; null if it would.
    reason: str | None
    #: The start time that the first job would wait for.
    not_before: str | None
    #: The first commands, and whether each is one line for a shell.
    commands: list[list[str]]
    shell: bool
    #: The unfinished job that has the same unique key, so that nothing would be queued; null if there is none.
    existing: int | None


def dry_run(
    batch: Batch, drafts: Sequence[Draft], bearer: Bearer = tokens.OWNER, shown: int = COMMANDS_SHOWN
) -> DryRunDocument:
    """Return what a submission would do now; raise what the submission would raise."""
    first = drafts[0]
    job = service.imagined(batch, first, bearer, count=len(drafts))
    workers, reason = _where(batch, job)
    key = first.spec.unique
    live = None if key is None else batch.live_with(scoped_key(bearer.token, key))
    return {
        "count": len(drafts),
        "id": job.id,
        "queue": first.spec.queue,
        "state": job.state,
        "request": request_text(first.spec.request),
        "workers": workers,
        "reason": reason,
        "not_before": timestamp(job.ready_at),
        "commands": [short_command([word_text(w) for w in each.spec.command]) for each in drafts[:shown]],
        "shell": first.spec.shell is not None,
        "existing": None if live is None else live.id,
    }


def _where(batch: Batch, job: Job) -> tuple[list[str], str | None]:
    if job.state is not State.QUEUED:
        return [], job.reason or lacking(batch, job)
    if (stopped := lacking(batch, job)) is not None:
        return [], stopped
    outlook = Outlook(batch.board, batch.mono)
    workers = outlook.workers_for(job)
    if workers:
        return workers, None
    return [], "; ".join(f"{each.worker}: {each.why}" for each in outlook.explain(job)) or "no worker is online"
