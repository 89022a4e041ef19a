"""Bounds what a home keeps of the files that jobs are sent."""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from grassq.broker.engine import Engine
from grassq.broker.job_list import LIMIT_MAX, JobQuery, list_jobs
from grassq.core.model import FINAL, State
from grassq.errors import Gone, GrassError
from grassq.files.blobs import BlobStore

log = logging.getLogger(__name__)

TIDY_S = 3600.0


async def bound_sent_files(engine: Engine, blobs: BlobStore, most_bytes: int) -> None:
    """Remove every hour what no unfinished job needs, until the rest is within the bound."""
    while True:
        try:
            if await asyncio.to_thread(blobs.size) > most_bytes:
                needed = await _needed_trees(engine)
                removed = await asyncio.to_thread(blobs.gc, needed, most_bytes, note=_log_error)
                log.info("sent_files removed_mib=%d", removed >> 20)
        except Gone:
            return
        except (OSError, GrassError) as error:
            _log_error(error)
        await asyncio.sleep(TIDY_S)


def _log_error(error: object) -> None:
    log.error("sent_files error=%s", error)


async def _needed_trees(engine: Engine) -> set[str]:
    """Return the ids of the trees that unfinished jobs are sent.

    A job that is submitted meanwhile may be missing; what it needs was used just now, and stays for that.
    """
    query = JobQuery(states=frozenset(State) - FINAL, descending=False, limit=LIMIT_MAX)
    needed: set[str] = set()
    while True:
        page = await engine.read(lambda batch, asked=query: list_jobs(batch, asked))  # type: ignore[misc]
        needed |= {tree.manifest for job in page.jobs for tree in job.spec.send}
        if page.more is None:
            return needed
        query = replace(query, after=page.more)
