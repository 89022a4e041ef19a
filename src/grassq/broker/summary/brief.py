"""The answer for one screen: some jobs of each kind, and counts of the rest."""

from __future__ import annotations

from collections.abc import Sequence

from grassq.broker import views
from grassq.broker.batch import Batch
from grassq.broker.documents.overview import OverviewDocument
from grassq.broker.documents.texts import timestamp
from grassq.broker.summary.sweeps import sweep_documents
from grassq.core.model import Job, State
from grassq.core.syntax.selectors import ByState
from grassq.store.base import JobScan

#: The most jobs of each kind.
RUNNING_SHOWN = 100
NEXT_SHOWN = 20
BLOCKED_SHOWN = 20
FAILED_SHOWN = 20
#: The newest failed jobs that are looked at; a failed job that was run again is not shown.
FAILED_LOOKED_AT = 60
#: The jobs that ended last, among which the last success is looked for.
ENDED_LOOKED_AT = 20


def glance(batch: Batch) -> OverviewDocument:
    """Return what `views.glance` does, and the sweeps of the jobs in it."""
    shown = views.glance(batch)
    return {**shown, "sweeps": sweep_documents(batch, shown["jobs"])}


def brief(batch: Batch) -> OverviewDocument:
    """Return the overview with few jobs, in the order of a screen: running, next, held up, and the last failures."""
    running = sorted(batch.board.holding.values(), key=lambda job: (job.started or batch.now, job.id))[:RUNNING_SHOWN]
    next_ids = batch.board.next_ids(NEXT_SHOWN)
    found = batch.fetch(next_ids)
    following = [found[id_] for id_ in next_ids if id_ in found]
    blocked = [job for state in (State.HELD, State.WAITING) for job in _in_state(batch, state)]
    failed = _last_failed(batch)
    jobs = list({job.id: job for job in (*running, *following, *blocked, *failed)}.values())
    ended = batch.store.recent(batch.now - views.RECENT_S, ENDED_LOOKED_AT)
    documents = views.documents(batch, jobs)
    return {
        **views.overview(batch),
        "jobs": documents,
        "sweeps": sweep_documents(batch, (*documents, *map(views.job_document, ended))),
        "last_succeeded": next((timestamp(job.finished) for job in ended if job.state is State.SUCCEEDED), None),
    }


def _in_state(batch: Batch, state: State) -> Sequence[Job]:
    stored = batch.store.jobs(ByState((state.value,)), BLOCKED_SHOWN)
    return [job for job in map(batch.current, stored) if job.state is state]


def _last_failed(batch: Batch) -> list[Job]:
    """Return the jobs that failed last and were not run again since, the newest first."""
    failed = batch.store.scan(JobScan(state=State.FAILED, descending=True), FAILED_LOOKED_AT)
    again = {job.rerun_of for job in batch.store.reruns([job.id for job in failed])} if failed else set()
    left = [job for job in failed if job.id not in again and job.id not in batch.changes.removed]
    return sorted(left, key=lambda job: (job.finished or 0.0, job.id), reverse=True)[:FAILED_SHOWN]
