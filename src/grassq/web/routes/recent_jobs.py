"""Jobs that have not ended, or ended lately: page by page, so that a long history is neither read nor kept whole."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from functools import partial

from grassq.broker import selection, views
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.engine import Engine
from grassq.broker.job_list import LIMIT_MAX, JobQuery, list_jobs
from grassq.broker.selection import UNFINISHED, Reading
from grassq.core.model import FINAL, Job
from grassq.core.syntax.selectors import ByState

#: A hundred years.
WITHIN_S_MAX = 100 * 366 * 86400


def is_recent(job: Job, since: float) -> bool:
    """Tell whether a job has not ended, or has ended since a time."""
    return job.state not in FINAL or (job.finished is not None and job.finished >= since)


def recent_page(reading: Reading, batch: Batch, *, within_s: float) -> tuple[list[JobDocument], Reading]:
    """Return the recent ones of the next selected jobs as data, and the reading after them."""
    some, reading = selection.read(batch, reading, views.SHOW_PAGE)
    since = batch.now - within_s
    return views.documents(batch, [job for job, _ in some if is_recent(job, since)]), reading


async def recent_jobs(engine: Engine, within_s: float) -> AsyncIterator[list[JobDocument]]:
    """Yield all jobs that have not ended, by id, then those that ended lately, the last first."""
    reading = await engine.read(lambda batch: selection.begin(batch, [ByState(UNFINISHED)], required=False))
    while not reading.is_over:
        jobs, reading = await engine.read(partial(views.show_page, reading))
        yield jobs
    query = await engine.read(partial(_first_query, within_s=within_s))
    while query is not None:
        jobs, query = await engine.read(partial(_ended_page, query=query))
        yield jobs


def _first_query(batch: Batch, within_s: float) -> JobQuery | None:
    return JobQuery(finished=(batch.now - within_s, math.inf), sort="finished", limit=LIMIT_MAX)


def _ended_page(batch: Batch, query: JobQuery) -> tuple[list[JobDocument], JobQuery | None]:
    page = list_jobs(batch, query)
    after = (
        None
        if page.more is None
        else JobQuery(finished=query.finished, sort=query.sort, limit=query.limit, after=page.more)
    )
    return views.documents(batch, page.jobs), after
