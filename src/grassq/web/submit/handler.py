"""The routes that submit jobs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from aiohttp import web
from msgspec.structs import replace

from grassq.broker import service
from grassq.broker.actions.dry_run import COMMANDS_SHOWN, DryRunDocument, dry_run
from grassq.broker.engine import BRIEF_MAX, Engine
from grassq.broker.sweeps.objects import NewSweep, sweep_name
from grassq.core.job_options import JobOptions
from grassq.core.model import State
from grassq.core.names import shown
from grassq.core.resources.amounts import Request
from grassq.core.sweeps.arrays import TaskArray, read_array
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.options import closest
from grassq.errors import BadInput, Gone, GrassError, NotFound, StoreUnavailable
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.bodies import REMOTE_BODY_MAX
from grassq.web.access.description import Description, Form
from grassq.web.access.principal import CALLER
from grassq.web.access.turns import CallerTurns
from grassq.web.answers.submissions import ManySubmittedDocument, SubmittedDocument, TriedDocument
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
from grassq.web.submit.file_options import unmade
from grassq.web.submit.many.apply import SweepApplication, applied_text, with_digests
from grassq.web.submit.many.sources import ManyBody, resolved
from grassq.web.submit.many.typed_jobs import most_jobs, new_sweep, of_program, read_typed, sweep_of_program
from grassq.web.submit.notify_targets import hosts_of
from grassq.web.submit.program_check import ProgramCheck
from grassq.web.submit.queue_snapshot import QueueSnapshot, snapshot_of
from grassq.web.submit.rerun import rerun_submitter
from grassq.web.submit.storing import LARGE, FileCheck, JobStoring, Run, StoredJobs, check_one_key, off_loop, stored_by
from grassq.web.submit.validate import DraftBuilder
from grassq.web.submit.waiting_options import notes_on_times, waits_first

#: Larger requests of one token are worked on one after the other.
ONE_AT_A_TIME = 16 << 10
#: The commands that the answer to a dry run of a program lists.
TRIED_SHOWN = 8
#: The answer to `--stdin` without lines; a command of another release, which does not send them, prints it.
NO_LINES = "grass: --stdin takes a command a line from stdin; this command is of another release than the daemon\n"
#: The answer to `--each` without points; a command of another release, which does not send them, prints it.
NO_POINTS = "grass: --each takes a job a row from a file; this command is of another release than the daemon\n"
#: The answer to `--send` without manifests; a command of another release, which does not make them, prints it.
NO_TREES = "grass: --send needs a snapshot of the folder; this command is of another release than the daemon\n"

T = TypeVar("T")
Submit = Callable[["Submissions", web.Request], Awaitable[web.Response]]


class _Many(NamedTuple):
    """The many jobs that a program asks for, before they are made."""

    body: ManyBody
    array: TaskArray | None
    builder: DraftBuilder
    #: How many jobs there are, as far as it is known; more than BRIEF_MAX are made on a thread.
    size: int
    notes: list[str]

    def read(self, builder: DraftBuilder) -> list[service.Draft]:
        """Make the jobs."""
        return of_program(self.body, self.array, builder)


def _in_turn(handler: Submit) -> Submit:
    """Let a handler work on one large request of each token at a time; refuse what takes too long to decode."""

    async def served(self: Submissions, request: web.Request) -> web.Response:
        async with self.turn(request):
            return await handler(self, request)

    return served


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
        self.storing = JobStoring(engine, check_files)
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
        many = about("Submit many jobs that differ in their command only", ManySubmittedDocument, ManyBody)
        tried = about("Tell what `POST /v1/submit-many` would do, and store nothing", TriedDocument, ManyBody)
        return [
            Route("POST", "/v1/enqueue", self.enqueue, "submit", REMOTE_BODY_MAX, about=enqueue),
            Route("POST", "/v1/submit", self.submit, "submit", REMOTE_BODY_MAX, about=submit),
            Route("POST", "/v1/submit-many", self.submit_many, "submit", REMOTE_BODY_MAX, about=many),
            Route("POST", "/v1/dry-run", self.dry_run, "submit", REMOTE_BODY_MAX, about=tried),
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
                typed, drafts = await self.check(partial(read_typed, body, words), builder, raw, most_jobs(body))
            except GrassError as error:
                stored = await self.storing.recalled(error, body.key, raw)
                typed = builder.known.split(words, lambda word: True)
            else:
                if typed.command.stdin and body.lines is None:
                    return enqueued(2, "", NO_LINES, lines=1)
                if typed.command.each is not None and body.points is None:
                    return enqueued(2, typed.command.each, NO_POINTS, each=1)
                if folders := unmade(drafts[0].spec.send if drafts else ()):
                    return enqueued(2, written_words(folders), NO_TREES, send=1)
                sweep = new_sweep(body, typed)
                if sweep is not None and sweep.kind == "file":
                    return await self._apply(request, body, typed, drafts, sweep)
                if typed.command.dry_run and drafts:
                    return await self._dry_run(typed, drafts, request)
                stored = await self.storing.store(drafts, body.key, request, self._snapshot, sweep)
        except (Gone, StoreUnavailable):
            # A client on another machine asks again.
            raise
        except GrassError as error:
            return enqueued(error.exit_code, "", f"grass: {error}\n")
        now = time.time()
        said = (*typed.notes, *notes_on_times(drafts, typed.options.at, now))
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
        if typed.command.stdin or typed.command.array is not None or typed.command.each is not None:
            request[ENTRY].about = f"jobs {range_text(ids)} in {options.queue}"
            is_sweep = bool(ids) and (body.verb == "sweep" or not typed.command.stdin)
            name = (options.name or sweep_name(ids[0])) if is_sweep else None
            return enqueued(0, lines_text(typed, ids, state, name), notes)
        follow = ids[0] if body.verb == "run" or typed.command.sync else None
        request[ENTRY].about = f"job {ids[0]} in {options.queue}"
        return enqueued(0, enqueue_text(typed, ids[0], state), notes, follow=follow)

    async def _dry_run(
        self, typed: enqueue_syntax.Enqueue, drafts: list[service.Draft], request: web.Request
    ) -> web.Response:
        """Answer with what a submission would do, and store nothing."""
        warnings = "".join(f"grass: {warning}\n" for warning in typed.warnings)
        return enqueued(0, dry_run_text(typed, await self._would(drafts, request)), warnings)

    async def _would(
        self, drafts: list[service.Draft], request: web.Request, shown: int = COMMANDS_SHOWN
    ) -> DryRunDocument:
        """Return what a submission would do."""
        await self.storing.check_files(draft.spec for draft in drafts)
        request[ENTRY].about = "nothing was stored"
        handler = partial(dry_run, drafts=drafts, bearer=request[CALLER].bearer, shown=shown)
        return await self._engine.read(handler)

    async def drafted(self, body: requests.EnqueueBody, request: web.Request) -> tuple[service.Draft, tuple[str, ...]]:
        """Return the one job that was typed, checked as by `enqueue` and not stored, and warnings."""
        words = [requests.word_bytes(word) for word in body.words]
        builder = await self.builder(body.submitter(request[CALLER]))
        typed, drafts = await self.check(partial(read_typed, body, words), builder, request[BODY], most_jobs(body))
        if typed.command.stdin or typed.command.array is not None or len(drafts) != 1:
            raise BadInput("--stdin, --array and --each make many jobs; `grass what-if` is about one job")
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
        many = await self._many(request)
        sweep = sweep_of_program(many.body, many.array)
        stored, warnings = await self.submitted(request, many.read, many.builder, many.body, many.size, sweep)
        warnings = [*many.notes, *warnings]
        # The ids are consecutive, so the first id and the count are enough.
        answer = ManySubmittedDocument(first=stored.ids[0], count=len(stored.ids), warnings=warnings)
        return document({**answer, "existing": True} if stored.existing else answer)

    @_in_turn
    async def dry_run(self, request: web.Request) -> web.Response:
        """Answer with what jobs of a program would do, and store nothing."""
        many = await self._many(request)
        sweep_of_program(many.body, many.array)
        drafts = await self._checked(many.read, many.builder, request, many.body, many.size)
        check_one_key(drafts)
        warnings = [*many.notes, *self.missing_queues(drafts, many.builder), *notes_on_times(drafts, None, time.time())]
        would = await self._would(drafts, request, TRIED_SHOWN)
        return document(TriedDocument(**would, warnings=warnings))

    async def _many(self, request: web.Request) -> _Many:
        """Return the many jobs that a program asks for."""
        body = await decoded(request[BODY], ManyBody)
        if body.job.command or body.job.shell:
            raise BadInput("`job` must have no command: the commands are in `commands`")
        submitter = body.submitter(request[CALLER])
        notes: list[str] = []
        if body.rows is not None or body.grid is not None:
            body, notes = await asyncio.to_thread(resolved, body, submitter)
        array = None if body.array is None else read_array(body.array)
        count = BRIEF_MAX + 1 if array is not None or body.each else len(body.commands)
        return _Many(body, array, await self.builder(submitter), count, notes)

    async def submitted(
        self,
        request: web.Request,
        read: Callable[[DraftBuilder], list[service.Draft]],
        builder: DraftBuilder,
        body: requests.ProgramBody,
        count: int,
        sweep: NewSweep | None = None,
    ) -> tuple[StoredJobs, list[str]]:
        """Store the drafts that `read` makes; return what is stored, and warnings."""
        raw, warnings = request[BODY], []
        try:
            drafts = await self._checked(read, builder, request, body, count)
        except GrassError as error:
            stored = await self.storing.recalled(error, body.key, raw)
        else:
            warnings = [*self.missing_queues(drafts, builder), *notes_on_times(drafts, None, time.time())]
            stored = await self.storing.store(drafts, body.key, request, self._snapshot, sweep)
        request[ENTRY].about = f"jobs {range_text(stored.ids)}"
        return stored, warnings

    async def _checked(
        self,
        read: Callable[[DraftBuilder], list[service.Draft]],
        builder: DraftBuilder,
        request: web.Request,
        body: requests.ProgramBody,
        count: int,
    ) -> list[service.Draft]:
        """Return the drafts that `read` makes, if they may wait for their queues or these exist."""
        drafts = await self.check(read, builder, request[BODY], count)
        missing = _missing(drafts, builder)
        if missing and not body.wait_for_queue:
            raise _no_queue(missing[0], builder.known.offers)
        return drafts

    def missing_queues(self, drafts: Sequence[service.Draft], builder: DraftBuilder) -> list[str]:
        """Return a warning for each queue that does not exist yet."""
        missing = _missing(drafts, builder)
        return [f"there is no queue {shown(queue)} yet; its jobs wait until it is created" for queue in missing]

    async def _apply(
        self,
        request: web.Request,
        body: requests.EnqueueBody,
        typed: enqueue_syntax.Enqueue,
        drafts: list[service.Draft],
        sweep: NewSweep,
    ) -> web.Response:
        """Run what is new, changed or failed of a sweep in a file, and answer with the text to print."""
        if not drafts or not body.parameters:
            raise BadInput("a sweep that is applied has a point at least, and each point has parameters")
        request_digest = await off_loop(digest, request[BODY])
        by_point = await asyncio.to_thread(with_digests, drafts, typed.options)
        application = SweepApplication(self._engine, by_point, sweep, body.sweep)

        async def submit(some: list[service.Draft], run: Run) -> list[int] | None:
            stored = await self.storing.run(some, body.key, request, self._snapshot, stored_by(run))
            return None if stored is None else stored.ids

        done = await application.run(submit, body.key, request_digest)
        request[ENTRY].about = f"jobs {range_text(done.ids)}" if done.ids else "nothing was stored"
        how = typed.command
        text = applied_text(sweep.name or "", done, body.sweep, is_json=how.json, is_quiet=how.quiet)
        return enqueued(0, text, "".join(f"grass: {note}\n" for note in typed.warnings))


async def decoded(raw: bytes, kind: type[T]) -> T:
    """Decode a body; a large one on another thread."""
    return await off_loop(lambda raw: requests.decode(raw, kind), raw)


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
