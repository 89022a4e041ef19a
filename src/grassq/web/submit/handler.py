"""The routes that submit jobs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import service
from grassq.broker.actions.dry_run import dry_run
from grassq.broker.batch import Batch
from grassq.broker.engine import BRIEF_MAX, Engine
from grassq.broker.tokens import Bearer
from grassq.core.job_options import JobOptions
from grassq.core.model import Spec, State
from grassq.core.names import shown
from grassq.core.resources.amounts import Request
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.file_words import SentTree
from grassq.core.syntax.options import closest
from grassq.errors import BadInput, Gone, GrassError, NotFound, StoreUnavailable
from grassq.store.base import Submission
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.bodies import REMOTE_BODY_MAX
from grassq.web.access.description import Description, Form
from grassq.web.access.principal import CALLER
from grassq.web.access.turns import CallerTurns
from grassq.web.answers.submissions import ManySubmittedDocument, SubmittedDocument
from grassq.web.requests import Submitter
from grassq.web.responses import (
    digest,
    document,
    dry_run_text,
    enqueue_text,
    enqueued,
    existing_text,
    lines_text,
    range_text,
    written_words,
)
from grassq.web.submit import bulk, outputs
from grassq.web.submit.file_options import unmade
from grassq.web.submit.notify_targets import hosts_of
from grassq.web.submit.program_check import ProgramCheck
from grassq.web.submit.queue_snapshot import QueueSnapshot, snapshot_of
from grassq.web.submit.rerun import rerun_submitter
from grassq.web.submit.validate import DraftBuilder
from grassq.web.submit.waiting_options import notes_on_times, waits_first

#: Larger requests, and more jobs than BRIEF_MAX, are read on another thread, so that the event loop can answer others.
LARGE = 64 << 10
#: Seconds in which the store says whether the jobs of a cancelled request are in it.
RECALL_S = 5.0
#: Larger requests of one token are worked on one after the other.
ONE_AT_A_TIME = 16 << 10
#: The answer to `--stdin` without lines; a command of another release, which does not send them, prints it.
NO_LINES = "grass: --stdin takes a command a line from stdin; this command is of another release than the daemon\n"
#: The answer to `--send` without manifests; a command of another release, which does not make them, prints it.
NO_TREES = "grass: --send needs a snapshot of the folder; this command is of another release than the daemon\n"

T = TypeVar("T")
#: Raises BadInput for trees that are not here or do not go together, and for patterns that are none.
FileCheck = Callable[[tuple[SentTree, ...], tuple[bytes, ...]], None]
Submit = Callable[["Submissions", web.Request], Awaitable[web.Response]]


def _in_turn(handler: Submit) -> Submit:
    """Let a handler work on one large request of each token at a time; refuse what takes too long to decode."""

    async def served(self: Submissions, request: web.Request) -> web.Response:
        async with self.turn(request):
            return await handler(self, request)

    return served


class StoredJobs(Struct, frozen=True):
    """What is stored of a request."""

    ids: list[int]
    #: Nothing was queued: this is the unfinished job that has the same unique key.
    existing: bool = False


class Submissions:
    """Reads, checks and stores what is submitted: a whole request, or nothing."""

    def __init__(
        self, engine: Engine, default: Request, check_files: FileCheck, token_notify: str = "", project: str = ""
    ) -> None:
        """Build the handlers; `check_files` checks the trees and the patterns of a job.

        `token_notify` names the hosts that jobs of tokens may send notices to, `project` is the setting.
        """
        self._project = project
        self._notify_hosts = hosts_of(token_notify)
        self._engine = engine
        self._check_files = check_files
        self._default = default
        self._snapshot = QueueSnapshot()
        self._generation = 0
        self._program_check = ProgramCheck()
        self.turns = CallerTurns(1)

    def routes(self) -> list[Route]:
        """Return the routes."""

        def about(summary: str, answer: object, body: object, form: Form = "json") -> Description:
            return Description("submissions", summary, answer, form, body=body)

        enqueue = about(
            "Submit what was typed after `grass enqueue`: the answer is what the command prints, `Grass-Exit` its exit "
            "code and `Grass-Stdout` how many bytes of the answer go to stdout",
            None,
            requests.EnqueueBody,
            "bytes",
        )
        submit = about("Submit jobs", SubmittedDocument, requests.SubmitBody)
        many = about("Submit many jobs that differ in their command only", ManySubmittedDocument, requests.ManyBody)
        return [
            Route("POST", "/v1/enqueue", self.enqueue, "submit", REMOTE_BODY_MAX, about=enqueue),
            Route("POST", "/v1/submit", self.submit, "submit", REMOTE_BODY_MAX, about=submit),
            Route("POST", "/v1/submit-many", self.submit_many, "submit", REMOTE_BODY_MAX, about=many),
        ]

    @contextlib.asynccontextmanager
    async def turn(self, request: web.Request) -> AsyncIterator[None]:
        """Work on one large request of each token at a time; refuse what takes too long to decode."""
        raw, token = request[BODY], request[CALLER].token
        if token is None or len(raw) <= ONE_AT_A_TIME:
            yield
            return
        requests.check_amount(raw)
        async with self.turns.of(token):
            yield

    async def builder(self, submitter: Submitter) -> DraftBuilder:
        """Return what makes drafts of this submitter's jobs, with the queues as they are now."""
        generation = self._engine.status.generation
        if generation != self._generation:
            self._snapshot = await self._engine.read(lambda batch: snapshot_of(batch.board), short=True)
            self._generation = generation
        return DraftBuilder(
            submitter, self._snapshot, self._default, self._program_check, self._notify_hosts, self._project
        )

    async def check(self, read: Callable[[DraftBuilder], T], builder: DraftBuilder, raw: bytes, count: int) -> T:
        """Read and check a request of `count` jobs with what the cache knows; check the rest on a thread."""
        if len(raw) <= LARGE and count <= BRIEF_MAX:
            cached = self._program_check.cached()
            try:
                result = read(replace(builder, program_check=cached))
            except GrassError:
                if not cached.unknown:
                    raise
            else:
                if not cached.unknown or await asyncio.to_thread(self._program_check.confirm, cached):
                    return result
        # The request is large, or a program or directory that was not in the cache is missing.
        return await asyncio.to_thread(read, builder)

    @_in_turn
    async def enqueue(self, request: web.Request) -> web.Response:
        """Split what was typed, store the job or the jobs, and answer with the text to print."""
        raw = request[BODY]
        drafts: list[service.Draft] = []
        try:
            body = await decoded(raw, requests.EnqueueBody)
            words = [requests.word_bytes(word) for word in body.words]
            builder = await self.builder(body.submitter(request[CALLER]))
            try:
                typed, drafts = await self.check(partial(read_typed, body, words), builder, raw, _lines(body))
            except GrassError as error:
                stored = await self._stored(error, body.key, raw)
                typed = builder.known.split(words, lambda word: True)
            else:
                if typed.command.stdin and body.lines is None:
                    return enqueued(2, "", NO_LINES, lines=1)
                if folders := unmade(drafts[0].spec.send if drafts else ()):
                    return enqueued(2, written_words(folders), NO_TREES, send=1)
                if typed.command.dry_run and drafts:
                    return await self._dry_run(typed, drafts, request)
                stored = await self._store(drafts, body.key, request, as_sweep=body.verb == "sweep")
        except (Gone, StoreUnavailable):
            # A client on another machine asks again.
            raise
        except GrassError as error:
            return enqueued(error.exit_code, "", f"grass: {error}\n")
        now = time.time()
        said = (*typed.notes, *notes_on_times(drafts, now))
        remarks = () if typed.command.quiet else tuple(f"note: {note}" for note in said)
        notes = "".join(f"grass: {note}\n" for note in (*typed.warnings, *remarks))
        options, ids = typed.options, stored.ids
        is_ready = options.queue in builder.known.offered and not (drafts and waits_first(drafts[0], now))
        state = State.HELD if options.hold else State.QUEUED if is_ready else State.WAITING
        if stored.existing:
            job = await self._engine.read(lambda batch: batch.job(ids[0]), short=True)
            follow = ids[0] if body.verb == "run" or typed.command.sync else None
            request[ENTRY].about = f"job {ids[0]} is not finished"
            return enqueued(0, existing_text(typed, ids[0], job), notes, follow=follow)
        if typed.command.stdin:
            request[ENTRY].about = f"jobs {range_text(ids)} in {options.queue}"
            name = (options.name or service.sweep_name(ids[0])) if body.verb == "sweep" and ids else None
            return enqueued(0, lines_text(typed, ids, state, name), notes)
        follow = ids[0] if body.verb == "run" or typed.command.sync else None
        request[ENTRY].about = f"job {ids[0]} in {options.queue}"
        return enqueued(0, enqueue_text(typed, ids[0], state), notes, follow=follow)

    async def _dry_run(
        self, typed: enqueue_syntax.Enqueue, drafts: list[service.Draft], request: web.Request
    ) -> web.Response:
        """Answer with what a submission would do, and store nothing."""
        await self.check_files(draft.spec for draft in drafts)
        request[ENTRY].about = "nothing was stored"
        handler = partial(dry_run, drafts=drafts, bearer=request[CALLER].bearer)
        warnings = "".join(f"grass: {warning}\n" for warning in typed.warnings)
        return enqueued(0, dry_run_text(typed, await self._engine.read(handler)), warnings)

    async def drafted(self, body: requests.EnqueueBody, request: web.Request) -> tuple[service.Draft, tuple[str, ...]]:
        """Return the one job that was typed, checked as by `enqueue` and not stored, and warnings."""
        words = [requests.word_bytes(word) for word in body.words]
        builder = await self.builder(body.submitter(request[CALLER]))
        typed, drafts = await self.check(partial(read_typed, body, words), builder, request[BODY], 1)
        if typed.command.stdin or len(drafts) != 1:
            raise BadInput("--stdin puts many commands into a queue; `grass what-if` is about one job")
        return drafts[0], typed.warnings

    @_in_turn
    async def submit(self, request: web.Request) -> web.Response:
        """Store jobs that a program made."""
        body = await decoded(request[BODY], requests.SubmitBody)
        submitter, first = body.submitter(request[CALLER]), None
        if body.rerun_of is not None:
            submitter, first = await self._engine.read(partial(rerun_submitter, id_=body.rerun_of, now=submitter))
        builder = await self.builder(submitter)
        builder.submitter.check_count(len(body.jobs), requests.JOBS_MAX)

        def read(builder: DraftBuilder) -> list[service.Draft]:
            return [replace(_draft(job, builder), rerun_of=first) for job in body.jobs]

        stored, warnings = await self.submitted(request, read, builder, body, len(body.jobs))
        answer = SubmittedDocument(ids=stored.ids, warnings=warnings)
        return document({**answer, "existing": True} if stored.existing else answer)

    @_in_turn
    async def submit_many(self, request: web.Request) -> web.Response:
        """Store jobs of a program that share everything except the command."""
        body = await decoded(request[BODY], requests.ManyBody)
        if body.job.command or body.job.shell:
            raise BadInput("`job` must have no command: the commands are in `commands`")

        def read(builder: DraftBuilder) -> list[service.Draft]:
            template = bulk.JobTemplate(builder.in_project(body.job.options()), builder)
            return bulk.with_parameters(bulk.of_commands(body.commands, template), body.parameters)

        builder = await self.builder(body.submitter(request[CALLER]))
        stored, warnings = await self.submitted(request, read, builder, body, len(body.commands))
        # The ids are consecutive, so the first id and the count are enough.
        answer = ManySubmittedDocument(first=stored.ids[0], count=len(stored.ids), warnings=warnings)
        return document({**answer, "existing": True} if stored.existing else answer)

    async def submitted(
        self,
        request: web.Request,
        read: Callable[[DraftBuilder], list[service.Draft]],
        builder: DraftBuilder,
        body: requests.ProgramBody,
        count: int,
    ) -> tuple[StoredJobs, list[str]]:
        """Store the drafts that `read` makes; return what is stored, and warnings."""
        raw, warnings = request[BODY], []
        try:
            drafts = await self.check(read, builder, raw, count)
            missing = _missing(drafts, builder)
            if missing and not body.wait_for_queue:
                raise _no_queue(missing[0], builder.known.offers)
        except GrassError as error:
            stored = await self._stored(error, body.key, raw)
        else:
            warnings = [*self.missing_queues(drafts, builder), *notes_on_times(drafts, time.time())]
            stored = await self._store(drafts, body.key, request)
        request[ENTRY].about = f"jobs {range_text(stored.ids)}"
        return stored, warnings

    def missing_queues(self, drafts: Sequence[service.Draft], builder: DraftBuilder) -> list[str]:
        """Return a warning for each queue that does not exist yet."""
        missing = _missing(drafts, builder)
        return [f"there is no queue {shown(queue)} yet; its jobs wait until it is created" for queue in missing]

    async def _store(
        self, drafts: list[service.Draft], key: str, request: web.Request, as_sweep: bool = False
    ) -> StoredJobs:
        if not drafts:
            return StoredJobs([])
        _check_one_key(drafts)
        await self.check_files(draft.spec for draft in drafts)
        made_of = partial(_submit, drafts, as_sweep, request[CALLER].bearer)
        request_digest = await off_loop(digest, request[BODY])
        handler = partial(made_of, key=key, digest=request_digest)
        try:
            made = await self._reserved([draft.spec for draft in drafts])
        except GrassError as error:
            if drafts[0].spec.unique is None:
                return await self._stored(error, key, request[BODY])
            # The file may be that of the unfinished job with the same unique key.
            known = await self._engine.change(partial(handler, existing_only=True), short=True)
            return known or await self._stored(error, key, request[BODY])
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
                await self._release_if_unknown(made, self._engine.read(recall, short=short))
            raise
        assert stored is not None
        if stored.existing and made:
            await asyncio.to_thread(outputs.release, made)
        return stored

    async def _release_if_unknown(self, made: list[bytes], stored: Awaitable[object]) -> None:
        """Remove the output files of a request that was cancelled, unless its jobs are stored or that is not known."""
        with contextlib.suppress(GrassError, TimeoutError):
            async with asyncio.timeout(RECALL_S):
                if await stored is None:
                    await asyncio.to_thread(outputs.release, made)

    async def _reserved(self, specs: list[Spec]) -> list[bytes]:
        """Make the output files of jobs that may run on this machine."""
        here = [each for each in specs if outputs.is_here(each, self._snapshot)]
        return await asyncio.to_thread(outputs.reserve, here) if here else []

    async def check_files(self, specs: Iterable[Spec]) -> None:
        """Raise BadInput for trees that are not here, and for patterns that are none."""
        for send, fetch in {(spec.send, spec.fetch) for spec in specs if spec.constraints.files}:
            await asyncio.to_thread(self._check_files, send, fetch)

    async def _stored(self, error: GrassError, key: str, raw: bytes) -> StoredJobs:
        """Return the jobs of a repeated request, which may be invalid by now; raise the error if none are stored."""
        recall = partial(service.recall, key=key, digest=await off_loop(digest, raw))
        stored = await self._engine.read(recall, short=True)
        if stored is None:
            raise error
        return stored_of(stored)


def stored_of(submission: Submission) -> StoredJobs:
    """Return what is stored of a request, from what its key stands for."""
    return StoredJobs(service.ids_of(submission), bool(submission.ids))


def _submit(
    drafts: list[service.Draft],
    as_sweep: bool,
    bearer: Bearer,
    batch: Batch,
    key: str,
    digest: bytes,
    existing_only: bool = False,
) -> StoredJobs | None:
    """Store new jobs; with `existing_only` find the unfinished job that is the answer, if there is one."""
    if existing_only:
        found = service.existing(batch, drafts[0], key, digest, bearer)
        return None if found is None else stored_of(found)
    if drafts[0].spec.unique is not None:
        return stored_of(service.submit_unique(batch, drafts[0], key, digest, as_sweep, bearer))
    return StoredJobs(service.submit(batch, drafts, key, digest, as_sweep, bearer))


def _check_one_key(drafts: Sequence[service.Draft]) -> None:
    if len(drafts) > 1 and any(draft.spec.unique is not None for draft in drafts):
        raise BadInput(f"--unique is for one job, and these are {len(drafts):,}: with one key only the first could run")


async def decoded(raw: bytes, kind: type[T]) -> T:
    """Decode a body; a large one on another thread."""
    return await off_loop(lambda raw: requests.decode(raw, kind), raw)


async def off_loop(do: Callable[[bytes], T], raw: bytes) -> T:
    """Return what `do` makes of a body; of a large one on another thread."""
    return do(raw) if len(raw) <= LARGE else await asyncio.to_thread(do, raw)


def _lines(body: requests.EnqueueBody) -> int:
    """Return how many jobs a request has at most."""
    return 1 if body.lines is None else 1 + requests.word_bytes(body.lines).count(b"\n")


def read_typed(
    body: requests.EnqueueBody, words: list[bytes], builder: DraftBuilder
) -> tuple[enqueue_syntax.Enqueue, list[service.Draft]]:
    """Return what was typed after `enqueue`, and its jobs."""
    typed, draft = builder.read_enqueue(words, body.sent)
    if not typed.command.stdin and body.lines is None:
        return typed, [draft]
    if not typed.command.stdin or body.verb == "run":
        raise BadInput("--stdin puts many commands into a queue, and `grass run` follows one: use grass enqueue")
    if body.lines is None:
        return typed, []
    drafts = bulk.of_lines(requests.word_bytes(body.lines), bulk.JobTemplate(typed.options, builder))
    return typed, bulk.with_parameters(drafts, body.parameters)


def _missing(drafts: Sequence[service.Draft], builder: DraftBuilder) -> list[str]:
    return sorted({draft.spec.queue for draft in drafts} - builder.known.offers.keys())


def _no_queue(queue: str, known: Iterable[str]) -> NotFound:
    meant = closest(queue, known)
    hint = f"did you mean {shown(meant)}?" if meant else "`grass show` lists the queues."
    return NotFound(f"there is no queue {shown(queue)}; {hint} With wait_for_queue its jobs wait until it is created")


def check_command(words: tuple[bytes, ...], options: JobOptions, known: QueueSnapshot) -> None:
    """Refuse an empty command in a queue without a command of its own, and a line for a shell that is no line."""
    if not words and not known.has_prefix(options.queue):
        raise BadInput("there is nothing to run: the command is empty")
    if options.shell is not None and len(words) != 1:
        raise BadInput("a shell job is one line")


def _draft(job: requests.JobBody, builder: DraftBuilder) -> service.Draft:
    words, options = tuple([requests.word_bytes(word) for word in job.command]), builder.in_project(job.options())
    check_command(words, options, builder.known)
    return builder.draft(words, options, builder.request_of(options))
