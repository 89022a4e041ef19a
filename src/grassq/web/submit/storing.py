"""Stores the jobs of a request: all of them or none, once per key, with their output files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from aiohttp import web
from msgspec import Struct

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.engine import BRIEF_MAX, Engine
from grassq.broker.sweeps.objects import NewSweep
from grassq.broker.tokens import Bearer
from grassq.core.model import Spec
from grassq.core.syntax.file_words import SentTree
from grassq.errors import BadInput, GrassError
from grassq.store.base import Submission
from grassq.web.access.auth import BODY
from grassq.web.access.principal import CALLER
from grassq.web.responses import digest
from grassq.web.submit import outputs
from grassq.web.submit.queue_snapshot import QueueSnapshot

#: Larger requests, and more jobs than BRIEF_MAX, are read on another thread, so that the event loop can answer others.
LARGE = 64 << 10
#: Seconds in which the store says whether the jobs of a cancelled request are in it.
RECALL_S = 5.0

T = TypeVar("T")
#: Submits jobs in a batch of the broker; None if the broker refuses to decide on what it was given.
Run = Callable[..., list[int] | None]
#: Raises BadInput for trees that are not here or do not go together, and for patterns that are none.
FileCheck = Callable[[tuple[SentTree, ...], tuple[bytes, ...]], None]


class StoredJobs(Struct, frozen=True):
    """What is stored of a request."""

    ids: list[int]
    #: Nothing was queued: this is the unfinished job that has the same unique key.
    existing: bool = False


class JobStoring:
    """Stores drafts through the engine, and keeps their output files in step."""

    def __init__(self, engine: Engine, check_files: FileCheck) -> None:
        """`check_files` checks the trees and the patterns of a job."""
        self._engine = engine
        self._check_files = check_files

    async def store(
        self,
        drafts: list[service.Draft],
        key: str,
        request: web.Request,
        known: QueueSnapshot,
        sweep: NewSweep | None = None,
    ) -> StoredJobs:
        """Store the jobs of a request, or find the job with the same unique key."""
        if not drafts:
            return StoredJobs([])
        check_one_key(drafts)
        stored = await self.run(drafts, key, request, known, partial(_submit, sweep=sweep))
        assert stored is not None
        return stored

    async def run(
        self,
        drafts: list[service.Draft],
        key: str,
        request: web.Request,
        known: QueueSnapshot,
        submit: Callable[..., StoredJobs | None],
    ) -> StoredJobs | None:
        """Store jobs by a handler of the broker; return None if the handler refuses to decide on what it was given."""
        await self.check_files(draft.spec for draft in drafts)
        request_digest, bearer = await off_loop(digest, request[BODY]), request[CALLER].bearer
        handler = partial(submit, drafts=drafts, key=key, digest=request_digest, bearer=bearer)
        try:
            made = await _reserved([draft.spec for draft in drafts], known)
        except GrassError as error:
            if drafts[0].spec.unique is None:
                return await self.recalled(error, key, request[BODY])
            # The file may be that of the unfinished job with the same unique key.
            existing = await self._engine.change(partial(handler, existing_only=True), short=True)
            return existing or await self.recalled(error, key, request[BODY])
        short = len(drafts) <= BRIEF_MAX
        try:
            stored = await self._engine.change(handler, key=key, recall=stored_of, short=short)
        except GrassError:
            await asyncio.to_thread(outputs.release, made)
            raise
        except asyncio.CancelledError:
            if made:
                # Decided after the submission, which the engine may still have before it: both are short, or none.
                recall = partial(service.recall, key=key, digest=request_digest)
                await _release_if_unknown(made, self._engine.read(recall, short=short))
            raise
        if made and (stored is None or stored.existing):
            await asyncio.to_thread(outputs.release, made)
        return stored

    async def recalled(self, error: GrassError, key: str, raw: bytes) -> StoredJobs:
        """Return the jobs of a repeated request, which may be invalid by now; raise the error if none are stored."""
        recall = partial(service.recall, key=key, digest=await off_loop(digest, raw))
        stored = await self._engine.read(recall, short=True)
        if stored is None:
            raise error
        return stored_of(stored)

    async def check_files(self, specs: Iterable[Spec]) -> None:
        """Raise BadInput for trees that are not here, and for patterns that are none."""
        for send, fetch in {(spec.send, spec.fetch) for spec in specs if spec.constraints.files}:
            await asyncio.to_thread(self._check_files, send, fetch)


async def off_loop(do: Callable[[bytes], T], raw: bytes) -> T:
    """Return what `do` makes of a body; of a large one on another thread."""
    return do(raw) if len(raw) <= LARGE else await asyncio.to_thread(do, raw)


def stored_of(submission: Submission) -> StoredJobs:
    """Return what is stored of a request, from what its key stands for."""
    return StoredJobs(service.ids_of(submission), bool(submission.ids))


def stored_by(run: Run) -> Callable[..., StoredJobs | None]:
    """Return a handler that stores jobs by another one, which returns their ids."""

    def submit(batch: Batch, *, existing_only: bool = False, **given: object) -> StoredJobs | None:
        ids = None if existing_only else run(batch, **given)
        return None if ids is None else StoredJobs(ids)

    return submit


def _submit(
    batch: Batch,
    drafts: list[service.Draft],
    key: str,
    digest: bytes,
    bearer: Bearer,
    sweep: NewSweep | None = None,
    existing_only: bool = False,
) -> StoredJobs | None:
    """Store new jobs; with `existing_only` find the unfinished job that is the answer, if there is one."""
    if existing_only:
        found = service.existing(batch, drafts[0], key, digest, bearer)
        return None if found is None else stored_of(found)
    if drafts[0].spec.unique is not None:
        return stored_of(service.submit_unique(batch, drafts[0], key, digest, sweep, bearer))
    return StoredJobs(service.submit(batch, drafts, key, digest, sweep, bearer))


def check_one_key(drafts: Sequence[service.Draft]) -> None:
    """Raise BadInput for many jobs with one unique key."""
    if len(drafts) > 1 and any(draft.spec.unique is not None for draft in drafts):
        raise BadInput(f"--unique is for one job, and these are {len(drafts):,}: with one key only the first could run")


async def _release_if_unknown(made: list[bytes], stored: Awaitable[object]) -> None:
    """Remove the output files of a request that was cancelled, unless its jobs are stored or that is not known."""
    with contextlib.suppress(GrassError, TimeoutError):
        async with asyncio.timeout(RECALL_S):
            if await stored is None:
                await asyncio.to_thread(outputs.release, made)


async def _reserved(specs: list[Spec], known: QueueSnapshot) -> list[bytes]:
    """Make the output files of jobs that may run on this machine."""
    here = [each for each in specs if outputs.is_here(each, known)]
    return await asyncio.to_thread(outputs.reserve, here) if here else []
