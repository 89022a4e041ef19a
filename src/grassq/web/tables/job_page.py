"""GET /v1/jobs/ID: all that a page about one job shows; GET /v1/jobs/ID/submission: how to submit the job again."""

from __future__ import annotations

from functools import partial

from aiohttp import web
from msgspec import Struct
from msgspec.structs import fields, replace

from grassq.broker import selection, tokens, views
from grassq.broker.actions.edit import version_of, why_not
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.documents.texts import timestamp, word_text
from grassq.broker.documents.why import WhyJobDocument
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import position_text
from grassq.broker.waiting.documents import attempt_document
from grassq.core.editing.typed import SECRET_FIELDS, shell_line, typed_words
from grassq.core.editing.values import options_of, request_of, values_of
from grassq.core.job_options import PlainOptions
from grassq.core.model import FINAL, Job
from grassq.core.syntax.file_words import SentTree, output_of_rerun
from grassq.core.syntax.selectors import ByIds
from grassq.errors import NotFound
from grassq.run import rundir
from grassq.store.base import Attempt
from grassq.web.access.auth import Route
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER, Principal
from grassq.web.answers.submissions import EditableJobDocument
from grassq.web.forecast.when import When
from grassq.web.logs.last_lines import LastLines
from grassq.web.responses import document, job_documents
from grassq.web.tables.documents import (
    OneJobDocument,
    RunDocument,
    SubmissionDocument,
)

#: The attempts, the lines of the story and the other runs that an answer has: the last ones.
ATTEMPTS_SHOWN, STORY_SHOWN, RUNS_SHOWN = 100, 200, 100
PATH = r"/v1/jobs/{id:\d{1,15}}"

_PLAIN = {field.name: field.default for field in fields(PlainOptions)}


class FoundJob(Struct, frozen=True):
    """A job and what the store has about it."""

    job: Job
    document: JobDocument
    why: list[WhyJobDocument]
    attempts: list[Attempt]
    story: list[tuple[float, str, str]]
    #: The id and the state of every run of the same job.
    runs: list[tuple[int, str]]
    #: The name of the token the job was submitted with; None for the owner.
    by: str | None
    seq: int


class JobPages:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, last_lines: LastLines, when: When) -> None:
        self._engine = engine
        self._last_lines = last_lines
        self._when = when

    def routes(self) -> list[Route]:
        """Return the routes."""
        page = Description("jobs", "One job with all that a page about it shows", OneJobDocument)
        again = Description(
            "submissions",
            "How to submit a job again: as a job of `/v1/submit`, and as a line for a shell",
            SubmissionDocument,
        )
        return [
            Route("GET", PATH, self.page, "read", about=page),
            Route("GET", f"{PATH}/submission", self.submission, "read", about=again),
        ]

    async def page(self, request: web.Request) -> web.Response:
        """Answer with one job: what it is, why it is where it is, its attempts, its story and its other runs."""
        id_ = int(request.match_info["id"])
        found = await self._engine.read(partial(_find, id_=id_, caller=request[CALLER]))
        if found is None:
            raise _no_job(id_)
        job = found.job
        await self._last_lines.describe([found.document])
        await self._when.describe(found.why)
        may_see = request[CALLER].may_change(job.spec.by)
        epoch, _ = self._engine.subscriptions.position
        answer: OneJobDocument = {
            "job": found.document,
            "why": found.why[0],
            "attempts": [attempt_document(each) for each in found.attempts],
            "story": [{"at": timestamp(at) or "", "kind": kind, "detail": detail} for at, kind, detail in found.story],
            "env": {word_text(name): word_text(value) if may_see else None for name, value in job.spec.env},
            "by": found.by or "owner",
            "runs": [RunDocument(id=run, state=state) for run, state in found.runs],
            "editable": _editable(job) if may_see and why_not(job) is None else None,
            "since": position_text((epoch, found.seq)),
        }
        return document(answer)

    async def submission(self, request: web.Request) -> web.Response:
        """Answer with a job as it would be submitted again. Not every caller is told variables and notices."""
        id_ = int(request.match_info["id"])
        job = await self._engine.read(lambda batch: batch.job(id_), short=True)
        if job is None:
            raise _no_job(id_)
        if job.state in FINAL and job.spec.output is not None:
            # The file of this run stays as it is.
            job = replace(job, spec=replace(job.spec, output=output_of_rerun(job.spec.output)))
        may_see = request[CALLER].may_change(job.spec.by)
        line = shell_line([b"grass", *typed_words(job, with_secrets=may_see)])
        secrets = [field for field in SECRET_FIELDS if getattr(job.spec, field)]
        answer: SubmissionDocument = {
            "body": _body(job, with_secrets=may_see),
            "command_line": line,
            "left_out": [] if may_see else secrets,
            "rerun_of": job.id if may_see and job.state in FINAL else None,
        }
        return document(answer)


def _no_job(id_: int) -> NotFound:
    return NotFound(f"there is no job {id_}; `grass show all` lists every job")


def _find(batch: Batch, id_: int, caller: Principal) -> FoundJob | None:
    job = batch.job(id_)
    if job is None:
        return None
    why, _ = views.why_page(selection.begin(batch, [ByIds(((id_, id_),))]), batch)
    first = job.rerun_of or job.id
    runs = {run.id: str(batch.current(run).state) for run in batch.store.reruns([first])}
    runs |= {run.id: str(run.state) for run in batch.fetch([first]).values()}
    names = tokens.names(batch) if job.spec.by else {}
    return FoundJob(
        job,
        job_documents(batch, [job], caller)[0],
        why,
        batch.store.attempts(id_)[-ATTEMPTS_SHOWN:],
        [(line.at, line.kind, line.detail) for line in batch.store.story(id_)[-STORY_SHOWN:]],
        sorted(runs.items())[-RUNS_SHOWN:],
        None if job.spec.by is None else names.get(job.spec.by, job.spec.by),
        batch.seq,
    )


def _editable(job: Job) -> EditableJobDocument:
    values = {name: _sendable(value) for name, value in values_of(job).items()}
    return {"id": job.id, "state": job.state, "version": version_of(job), "values": values}


def _body(job: Job, *, with_secrets: bool) -> dict[str, object]:
    """Return a job of /v1/submit."""
    spec, options = job.spec, options_of(job)
    body: dict[str, object] = {
        name: _sendable(value)
        for name, default in _PLAIN.items()
        if (value := getattr(options, name)) != default and (with_secrets or name not in SECRET_FIELDS)
        if name != "warn"
    }
    body |= {"command": _sendable(spec.command), "queue": spec.queue, "request": request_of(spec)}
    body["shell"] = spec.shell is not None
    for name, pairs in (("parameters", spec.parameters), ("tags", spec.tags)):
        if pairs:
            body[name] = dict(pairs)
    if spec.warn is not None:
        body |= {"warn_s": spec.warn.before_s, "warn_signal": spec.warn.signal}
    if spec.env and with_secrets:
        body["env"] = _sendable(spec.env)
    if spec.own_cwd or (spec.constraints.remote is None and spec.cwd.startswith(b"/") and not spec.send):
        body["cwd"] = _sendable(spec.cwd)
    return body


def _sendable(value: object) -> object:
    match value:
        case tuple() | list():
            return [_sendable(each) for each in value]
        case bytes():
            return rundir.encode_word(value)
        case SentTree(manifest, dest, folder):
            return {"manifest": manifest, "folder": _sendable(folder), "dest": _sendable(dest)}
        case _:
            return value
