"""What a job waits for before it is queued, and its attempts so far, as documents."""

from __future__ import annotations

from grassq.broker.batch import Batch
from grassq.broker.documents.job import AttemptDocument
from grassq.broker.documents.texts import timestamp
from grassq.core.model import Job, Spec
from grassq.core.resources.amounts import allocation_json
from grassq.core.states import waiting_reason
from grassq.store.base import Attempt

#: Ranges of ids of each condition in a document; more of them are left out.
RANGES_SHOWN = 1_000
#: The newest attempts of a job in a document.
ATTEMPTS_SHOWN = 100


def after_document(spec: Spec) -> dict[str, list[str]] | None:
    """Return the jobs that a job starts after, by condition."""
    if not spec.dependencies:
        return None
    return {
        each.condition: [str(a) if a == b else f"{a}-{b}" for a, b in each.ranges[:RANGES_SHOWN]]
        for each in spec.dependencies
    }


def lacking(batch: Batch, job: Job) -> str | None:
    """Return what a job waits for of other jobs, or until when it waits."""
    reason = waiting_reason(job, job.waits)
    if job.waits_for_jobs:
        left = batch.board.dependencies.left(job.id)
        return f"{reason}; {left} {'has' if left == 1 else 'have'} not ended" if left > 1 else reason
    if job.tried or job.ready_at is None:
        return reason
    return f"{reason}: {timestamp(job.ready_at)}"


def attempt_documents(batch: Batch, job: Job) -> list[AttemptDocument]:
    """Return the attempts of a job, the newest last."""
    return [attempt_document(each) for each in batch.store.attempts(job.id)[-ATTEMPTS_SHOWN:]]


def attempt_document(attempt: Attempt) -> AttemptDocument:
    """Return an attempt as a document."""
    return {
        "number": attempt.number,
        "worker": attempt.placement.worker,
        "allocation": allocation_json(attempt.placement.allocation) or {},
        "pid": attempt.pid,
        "started": timestamp(attempt.started),
        "ended": timestamp(attempt.ended),
        "outcome": attempt.outcome,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "error": attempt.error,
    }
