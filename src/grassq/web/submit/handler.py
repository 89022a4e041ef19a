"""The routes that submit jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web

from grassq.broker import service
from grassq.broker.engine import BRIEF_MAX, Engine
from grassq.core.names import shown
from grassq.core.resources.amounts import Request
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.errors import BadInput, Gone, GrassError
from grassq.store.base import Submission
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY
from grassq.web.access.principal import CALLER
from grassq.web.responses import digest, document, enqueue_text, enqueued, lines_text, range_text
from grassq.web.submit import bulk, validate
from grassq.web.submit.program_check import ProgramCheck
from grassq.web.submit.submitter import Submitter

#: Larger requests are read on another thread, so that the event loop can answer others.
LARGE = 64 << 10
#: The answer to `--stdin` without lines; a command of another release, which does not send them, prints it.
NO_LINES = "grass: --stdin takes a command a line from stdin; this command is of another release than the daemon\n"

T = TypeVar("T")


class Submissions:
    """Reads, checks and stores what is submitted: a whole request, or nothing."""

    def __init__(self, engine: Engine, default: Request) -> None:
        self._engine = engine
        self._default = default
        self._snapshot = validate.QueueSnapshot({}, frozenset())
        self._generation = 0
        self._program_check = ProgramCheck()

    async def _known(self) -> validate.QueueSnapshot:
        generation = self._engine.status.generation
        if generation != self._generation:
            self._snapshot = await self._engine.read(lambda batch: validate.snapshot_of(batch.board))
            self._generation = generation
        return self._snapshot

    async def _check(self, read: Callable[[ProgramCheck], T], raw: bytes) -> T:
        """Read and check a request with what the cache knows; check the rest on a thread."""
        if len(raw) <= LARGE:
            cached = self._program_check.cached()
            try:
                result = read(cached)
            except GrassError:
                if not cached.unknown:
                    raise
            else:
                if not cached.unknown or await asyncio.to_thread(self._program_check.confirm, cached):
                    return result
        # The request is large, or a program or directory that was not in the cache is missing.
        return await asyncio.to_thread(read, self._program_check)

    async def enqueue(self, request: web.Request) -> web.Response:
        """Split what was typed, store the job or the jobs, and answer with the text to print."""
        raw = request[BODY]
        try:
            body = await _decoded(raw, requests.EnqueueBody)
            words = [requests.word_bytes(word) for word in body.words]
            submitter, known = body.submitter(request[CALLER]), await self._known()
            try:
                typed, drafts = await self._check(partial(self._read, body, words, submitter, known), raw)
            except GrassError:
                # A repeated request may be invalid by now although its jobs are stored.
                stored = await self._stored(body.key, raw)
                if stored is None:
                    raise
                typed, ids = validate.split(words, known, lambda word: True), service.ids_of(stored)
            else:
                if typed.command.stdin and body.lines is None:
                    return enqueued(2, "", NO_LINES, lines=1)
                ids = await self._store(drafts, body.key, raw, as_sweep=body.verb == "sweep")
        except Gone:
            raise
        except GrassError as error:
            return enqueued(error.exit_code, "", f"grass: {error}\n")
        notes = "".join(f"grass: {note}\n" for note in typed.warnings)
        options = typed.options
        if typed.command.stdin:
            request[ENTRY].about = f"jobs {range_text(ids)} in {options.queue}"
            name = (options.name or service.sweep_name(ids[0])) if body.verb == "sweep" and ids else None
            return enqueued(0, lines_text(typed, ids, name), notes)
        follow = ids[0] if body.verb == "run" or typed.command.sync else None
        request[ENTRY].about = f"job {ids[0]} in {options.queue}"
        return enqueued(0, enqueue_text(typed, ids[0]), notes, follow=follow)

    def _read(
        self,
        body: requests.EnqueueBody,
        words: list[bytes],
        submitter: Submitter,
        known: validate.QueueSnapshot,
        program_check: ProgramCheck,
    ) -> tuple[enqueue_syntax.Enqueue, list[service.Draft]]:
        typed, draft = validate.read_enqueue(words, submitter, known, self._default, program_check)
        if not typed.command.stdin and body.lines is None:
            return typed, [draft]
        if not typed.command.stdin or body.verb == "run":
            raise BadInput("--stdin puts many commands into a queue, and `grass run` follows one: use grass enqueue")
        if body.lines is None:
            return typed, []
        request = validate.request_of(typed.options, self._default)
        template = bulk.JobTemplate(typed.options, request, submitter, known, program_check)
        return typed, bulk.of_lines(requests.word_bytes(body.lines), template)

    async def submit(self, request: web.Request) -> web.Response:
        """Store jobs that a program made."""
        body = await _decoded(request[BODY], requests.SubmitBody)
        if not 1 <= len(body.jobs) <= requests.JOBS_MAX:
            raise BadInput(f"a submission has 1 to {requests.JOBS_MAX:,} jobs")
        submitter, known = body.submitter(request[CALLER]), await self._known()

        def read(program_check: ProgramCheck) -> list[service.Draft]:
            return [_draft(job, submitter, known, self._default, program_check) for job in body.jobs]

        ids, warnings = await self._submitted(request, read, known, body.key)
        return document({"ids": ids, "warnings": warnings})

    async def submit_many(self, request: web.Request) -> web.Response:
        """Store jobs of a program that share everything except the command."""
        body = await _decoded(request[BODY], requests.ManyBody)
        if body.job.command or body.job.shell:
            raise BadInput("`job` must have no command: the commands are in `commands`")
        submitter, known = body.submitter(request[CALLER]), await self._known()

        def read(program_check: ProgramCheck) -> list[service.Draft]:
            options = body.job.options()
            request = validate.request_of(options, self._default)
            template = bulk.JobTemplate(options, request, submitter, known, program_check)
            return bulk.of_commands(body.commands, template)

        ids, warnings = await self._submitted(request, read, known, body.key)
        # The ids are consecutive, so the first id and the count are enough.
        return document({"first": ids[0], "count": len(ids), "warnings": warnings})

    async def _submitted(
        self,
        request: web.Request,
        read: Callable[[ProgramCheck], list[service.Draft]],
        known: validate.QueueSnapshot,
        key: str,
    ) -> tuple[list[int], list[str]]:
        """Store the drafts that `read` makes; return their ids, and warnings."""
        raw, warnings = request[BODY], []
        try:
            drafts = await self._check(read, raw)
        except GrassError:
            stored = await self._stored(key, raw)
            if stored is None:
                raise
            ids = service.ids_of(stored)
        else:
            missing = sorted({draft.spec.queue for draft in drafts} - known.offers.keys())
            warnings = [f"there is no queue {shown(queue)} yet; its jobs wait until it is created" for queue in missing]
            ids = await self._store(drafts, key, raw)
        request[ENTRY].about = f"jobs {range_text(ids)}"
        return ids, warnings

    async def _store(self, drafts: list[service.Draft], key: str, raw: bytes, as_sweep: bool = False) -> list[int]:
        if not drafts:
            return []
        request_digest = await _off_loop(digest, raw)
        handler = partial(service.submit, drafts=drafts, key=key, digest=request_digest, as_sweep=as_sweep)
        return await self._engine.change(handler, key=key, recall=service.ids_of, short=len(drafts) <= BRIEF_MAX)

    async def _stored(self, key: str, raw: bytes) -> Submission | None:
        return await self._engine.read(partial(service.recall, key=key, digest=await _off_loop(digest, raw)))


async def _decoded(raw: bytes, kind: type[T]) -> T:
    return await _off_loop(lambda raw: requests.decode(raw, kind), raw)


async def _off_loop(do: Callable[[bytes], T], raw: bytes) -> T:
    return do(raw) if len(raw) <= LARGE else await asyncio.to_thread(do, raw)


def _draft(
    job: requests.JobBody,
    submitter: Submitter,
    known: validate.QueueSnapshot,
    default: Request,
    program_check: ProgramCheck,
) -> service.Draft:
    words, options = tuple([requests.word_bytes(word) for word in job.command]), job.options()
    offer = known.offers.get(options.queue)
    if not words and not (offer and offer.prefix):
        raise BadInput("there is nothing to run: the command is empty")
    if job.shell and len(words) != 1:
        raise BadInput("a shell job is one line")
    return validate.draft(words, options, validate.request_of(options, default), submitter, known, program_check)
