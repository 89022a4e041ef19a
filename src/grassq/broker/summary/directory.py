"""Tells in which directory a job ran. The directory of its submitter may be on another machine."""

from __future__ import annotations

from grassq.broker.batch import Batch
from grassq.broker.documents.texts import maybe_text
from grassq.core.model import Job


def directory_of(batch: Batch, job: Job) -> str | None:
    """Return the directory of the last attempt; None before the first, and where only the worker knows it.

    The worker knows it alone if the job was sent files, or came from another machine without a directory of its own.
    """
    spec, where = job.spec, job.placement
    if where is None or spec.send:
        return None
    worker = batch.board.workers.get(where.worker)
    is_elsewhere = spec.constraints.remote is not None or (worker is not None and worker.info.apart)
    if where.cwd is not None and not spec.own_cwd:
        found: bytes | None = where.cwd
    else:
        found = spec.cwd if spec.own_cwd or not is_elsewhere else None
    return maybe_text(found)
