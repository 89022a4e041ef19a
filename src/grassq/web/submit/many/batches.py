"""The routes for batches in GPUPeasy's text format: what they would run, and their submission, whole or not at all.

POST /v1/check tells what a batch, or the words of `grass enqueue`, would run. Nothing is stored, and no file is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.documents.texts import word_text
from grassq.broker.service import Draft
from grassq.core.batches.batch_text import PROBLEMS_MAX, BatchJob, BatchProblem, ReadBatch, read_batch
from grassq.core.batches.job_names import job_name
from grassq.core.job_options import JobOptions
from grassq.core.resources.amounts import amount_number
from grassq.errors import BadInput, GrassError
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.bodies import REMOTE_BODY_MAX
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER
from grassq.web.responses import document
from grassq.web.submit import outputs
from grassq.web.submit.handler import Submissions, decoded
from grassq.web.submit.many.bulk import JobTemplate
from grassq.web.submit.many.typed_jobs import read_typed
from grassq.web.submit.queue_snapshot import QueueSnapshot
from grassq.web.submit.storing import off_loop
from grassq.web.submit.validate import DraftBuilder

#: How many jobs the answer to a check lists.
LISTED_MAX = 500


class CheckBody(requests.EnqueueBody, kw_only=True):
    """A batch with the options that its jobs share, or else what would be typed after `grass enqueue`."""

    words: list[requests.Word] = msgspec.field(default_factory=list)
    batch: str | None = None
    #: The options of each job of the batch; it has no command.
    job: requests.JobBody = requests.JobBody()


class BatchBody(requests.ProgramBody, kw_only=True):
    """A batch: `NAME;;OUTFILE;;COMMAND;;;` for each job."""

    text: str
    #: The options of each job; it has no command.
    job: requests.JobBody = requests.JobBody()


class CheckedJobDocument(TypedDict):
    """A job that would be submitted."""

    #: The line of the batch on which it begins.
    line: int | None
    name: str | None
    queue: str
    #: The program and its words, or the line for the shell.
    command: list[str]
    #: Whether a shell runs the line.
    shell: bool
    cwd: str
    output: str | None
    request: dict[str, float]


class BatchProblemDocument(TypedDict):
    """What is wrong with a job, and on which line of the text the job begins."""

    line: int | None
    why: str


class CheckDocument(TypedDict):
    """What would run: with a problem, nothing."""

    #: The first jobs.
    jobs: list[CheckedJobDocument]
    #: How many jobs there are.
    count: int
    problems: list[BatchProblemDocument]
    warnings: list[str]


class BatchSubmittedDocument(TypedDict):
    """The jobs of a batch that was submitted."""

    ids: list[int]
    warnings: list[str]


class _Drafted(Struct, frozen=True):
    """The jobs of a batch, with their lines, and what is wrong with others."""

    drafts: list[tuple[int | None, Draft]]
    problems: list[BatchProblem]


class Batches:
    """The handlers of the routes."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions

    def routes(self) -> list[Route]:
        """Return the routes."""
        check = Description(
            "submissions", "Tell what a batch or a command would run, and store nothing", CheckDocument, body=CheckBody
        )
        submit = Description(
            "submissions",
            "Submit a batch in GPUPeasy's text format, whole or not at all",
            BatchSubmittedDocument,
            body=BatchBody,
        )
        return [
            Route("POST", "/v1/check", self.check, "submit", REMOTE_BODY_MAX, about=check),
            Route("POST", "/v1/submit-batch", self.submit, "submit", REMOTE_BODY_MAX, about=submit),
        ]

    async def check(self, request: web.Request) -> web.Response:
        """Answer with what would run, and with what is wrong."""
        request[ENTRY].about = "nothing was stored"
        async with self._submissions.turn(request):
            body = await decoded(request[BODY], CheckBody)
            builder = await self._submissions.builder(body.submitter(request[CALLER]))
            found = await self._read(body, builder, request[BODY])
        drafts = [draft for _, draft in found.drafts]
        answer: CheckDocument = {
            "jobs": [_checked(line, draft) for line, draft in found.drafts[:LISTED_MAX]],
            "count": len(drafts),
            "problems": [{"line": each.line or None, "why": each.why} for each in found.problems[:PROBLEMS_MAX]],
            "warnings": self._submissions.missing_queues(drafts, builder),
        }
        return document(answer)

    async def submit(self, request: web.Request) -> web.Response:
        """Store the jobs of a batch, or say what is wrong and store none."""
        async with self._submissions.turn(request):
            body = await decoded(request[BODY], BatchBody)
            builder = await self._submissions.builder(body.submitter(request[CALLER]))
            batch = await off_loop(lambda raw: read_batch(body.text), request[BODY])
            count = len(batch.jobs)
            builder.submitter.check_count(count or 1)

            def read(builder: DraftBuilder) -> list[Draft]:
                found = _of_batch(batch, _common(body.job), builder)
                if found.problems:
                    raise BadInput(_refusal(found.problems))
                return [draft for _, draft in found.drafts]

            stored, warnings = await self._submissions.submitted(request, read, builder, body, count)
        answer: BatchSubmittedDocument = {"ids": stored.ids, "warnings": warnings}
        return document(answer)

    async def _read(self, body: CheckBody, builder: DraftBuilder, raw: bytes) -> _Drafted:
        """Return what a body would run; a problem of the words of a command is one without a line."""
        if (text := body.batch) is not None:
            batch, options = await off_loop(lambda raw: read_batch(text), raw), _common(body.job)
            return await self._submissions.check(
                lambda builder: _looked_at(_of_batch(batch, options, builder), builder.known),
                builder,
                raw,
                len(batch.jobs),
            )
        words = [requests.word_bytes(word) for word in body.words]

        def typed(builder: DraftBuilder) -> _Drafted:
            return _Drafted([(None, draft) for draft in read_typed(body, words, builder)[1]], [])

        try:
            return await self._submissions.check(typed, builder, raw, 1)
        except GrassError as error:
            return _Drafted([], [BatchProblem(0, str(error))])


def _common(job: requests.JobBody) -> JobOptions:
    if job.command or job.name is not None or job.output is not None:
        raise BadInput("`job` has the options that all jobs share; names, outputs and commands are in the batch")
    return job.options()


def _of_batch(batch: ReadBatch, options: JobOptions, builder: DraftBuilder) -> _Drafted:
    options = builder.in_project(options)
    template = JobTemplate(options, builder)
    drafts: list[tuple[int | None, Draft]] = []
    problems = list(batch.problems)
    for job in batch.jobs:
        try:
            drafts.append((job.line, _draft(job, options, template)))
        except BadInput as error:
            problems.append(BatchProblem(job.line, str(error)))
    return _Drafted(drafts, sorted(problems, key=lambda each: each.line))


def _draft(job: BatchJob, options: JobOptions, template: JobTemplate) -> Draft:
    asked = outputs.completed(replace(options, output=job.outfile.encode()), template.submitter)
    draft = template.of_line(job.command.encode())
    return replace(draft, name=job_name(job.name), spec=outputs.with_output(draft.spec, asked.output))


def _looked_at(found: _Drafted, known: QueueSnapshot) -> _Drafted:
    """Add a problem for each output file that exists."""
    problems = [
        BatchProblem(line or 0, why)
        for line, draft in found.drafts
        if outputs.is_here(draft.spec, known) and (why := outputs.why_not(draft.spec)) is not None
    ]
    return replace(found, problems=sorted([*found.problems, *problems], key=lambda each: each.line))


def _refusal(problems: Sequence[BatchProblem]) -> str:
    first, more = problems[0], len(problems) - 1
    others = f" (and {more} more {'problem' if more == 1 else 'problems'})" if more else ""
    return f"line {first.line}: {first.why}{others}; no job of the batch was submitted"


def _checked(line: int | None, draft: Draft) -> CheckedJobDocument:
    spec = draft.spec
    return {
        "line": line,
        "name": draft.name,
        "queue": spec.queue,
        "command": [word_text(word) for word in spec.command],
        "shell": spec.shell is not None,
        "cwd": word_text(spec.cwd),
        "output": None if spec.output is None else word_text(spec.output),
        "request": {name: amount_number(amount) for name, amount in spec.request},
    }
