"""The routes that change jobs which have not started: what can be edited of a job, edits, and moves in the line."""

# Paths of jobs are bytes, which pathlib does not accept.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import selection
from grassq.broker.actions.bulk import LISTED_MAX, NOTES_MAX, STEP_JOBS
from grassq.broker.actions.edit import EDITED_MAX, EditedJob, Editor, EditResult, edit, recalled, version_of, why_not
from grassq.broker.actions.move import MOVED_AT_ONCE, Destination, Where, move
from grassq.broker.batch import Batch
from grassq.broker.engine import BRIEF_MAX, Engine
from grassq.broker.selection import Reading, Selected
from grassq.broker.waiting.edited import NewWaits
from grassq.core.editing import changes as editing
from grassq.core.editing.values import REQUIRE, options_of, values_of
from grassq.core.job_options import FILE_FIELDS, JobOptions, Pairs
from grassq.core.model import Job, Spec
from grassq.core.names import shown
from grassq.core.planner.limits.membership import regrouped
from grassq.core.syntax.selectors import Selector
from grassq.errors import BadInput, Refused
from grassq.run import rundir
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.bodies import REMOTE_BODY_MAX
from grassq.web.access.description import ONE_SELECTOR, Description
from grassq.web.access.principal import CALLER, Principal
from grassq.web.answers.submissions import EditableDocument, EditableJobDocument, EditedDocument
from grassq.web.requests import Environment, Submitter
from grassq.web.responses import BulkDocument, bulk_document, digest, document
from grassq.web.submit.handler import Submissions, check_command
from grassq.web.submit.validate import DraftBuilder

#: How often an edit of selected jobs is made again because another caller has edited one of the jobs meanwhile.
TRIES_MAX = 5
#: Changes of these look for the job's program and directory again.
LOOKED_UP = ("queue", "cwd", "shell", "env", "worker", "wrap", *FILE_FIELDS)
#: What to do where too many jobs are selected.
IN_PARTS = "edit them in parts, such as 1-1000"
MOVE_IN_PARTS = f"move {MOVED_AT_ONCE} at most at once"
BY_SET = "`grass edit --set NAME=VALUE` changes many at once"
#: The options whose values may be given by name.
MAPPINGS = ("env", REQUIRE, "request", "tag", "tags")

_pairs = msgspec.msgpack.Decoder(Pairs).decode


class EditBody(requests.Body, kw_only=True):
    """Selected jobs, and what to change of them."""

    selectors: list[str]
    #: New values by name: the options of `enqueue`, `command`, and resources. Null is the default.
    set: dict[str, object]
    #: What a relative path is relative to.
    cwd: requests.Word = "/"
    #: The version of the one job that the changes were made from; without it the last version counts.
    version: str | None = None


class MoveBody(requests.Body, kw_only=True):
    """Selected jobs, and where to move them."""

    selectors: list[str]
    where: Where
    #: A selector of the one job before or after which the others go.
    target: str | None = None


class Found(Struct, frozen=True):
    """The selected jobs that can be edited, and the environments they have."""

    jobs: list[Selected]
    environments: dict[bytes, bytes]
    #: How many of the selected jobs have started or ended.
    started: int = 0


class Edits:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, submissions: Submissions) -> None:
        self._engine = engine
        self._submissions = submissions

    def routes(self) -> list[Route]:
        """Return the routes."""
        editable = Description(
            "submissions", "Everything that can be changed of jobs, by name", EditableDocument, query=(ONE_SELECTOR,)
        )
        edit = Description("submissions", "Change jobs that have not started", EditedDocument, body=EditBody)
        move = Description("submissions", "Move jobs to another place in the line", BulkDocument, body=MoveBody)
        return [
            Route("GET", "/v1/jobs/editable", self.editable, "submit", about=editable),
            Route("POST", "/v1/jobs/edit", self.edit, "submit", REMOTE_BODY_MAX, about=edit),
            Route("POST", "/v1/jobs/move", self.move, "submit", about=move),
        ]

    async def editable(self, request: web.Request) -> web.Response:
        """Answer with everything that can be changed of jobs, by name, and with the version of each job."""
        chosen = requests.check_some(requests.selectors(request))
        found = await self._find(chosen, request[CALLER].limited_to, LISTED_MAX, BY_SET)
        for job, _ in found.jobs:
            _refuse_foreign(job, request[CALLER])
        jobs = [_editable_document(job) for job, _ in found.jobs]
        return document(EditableDocument(jobs=jobs, started=found.started))

    async def edit(self, request: web.Request) -> web.Response:
        """Change selected jobs that have not started: all of them or none, once per key."""
        raw, caller = request[BODY], request[CALLER]
        body = requests.decode(raw, EditBody)
        chosen = requests.check_some(requests.parse_selectors(body.selectors, is_remote=not caller.is_at_home))
        request[ENTRY].about = " ".join([*body.selectors, *(f"{name}=..." for name in body.set)])
        request_digest = digest(raw)
        known = await self._engine.read(partial(recalled, key=body.key, digest=request_digest))
        if known is not None:
            return _answer(known)
        editor = Editor(caller.name, caller.bearer, caller.limited_to)
        for _ in range(TRIES_MAX):
            found = await self._find(chosen, caller.limited_to, EDITED_MAX, IN_PARTS)
            if body.version is not None:
                _check_version(found, body.version)
            builder = await self._submissions.builder(Submitter(caller=caller))
            make = partial(_edits, body=body, found=found)
            edits, notes = await self._submissions.check(make, builder, raw, len(found.jobs))
            await self._submissions.storing.check_files(each.spec for each in edits)
            handler = partial(edit, edits=edits, editor=editor, key=body.key, digest=request_digest)
            done = await self._engine.change(handler, short=len(edits) <= BRIEF_MAX)
            if done is not None:
                return _answer(done, [*_notes(found), *notes])
        raise Refused("somebody else edits these jobs at the same time; nothing was changed, try again")

    async def move(self, request: web.Request) -> web.Response:
        """Move selected jobs that have not started to another place in the line, all or none, once per key."""
        raw, caller = request[BODY], request[CALLER]
        body = requests.decode(raw, MoveBody)
        chosen = requests.check_some(requests.parse_selectors(body.selectors, is_remote=not caller.is_at_home))
        request[ENTRY].about = " ".join([*body.selectors, body.where, body.target or ""])
        request_digest = digest(request.path.encode() + b" " + raw)
        known = await self._engine.read(partial(recalled, key=body.key, digest=request_digest))
        if known is not None:
            return document(bulk_document(known.done))
        place = Destination(body.where, await self._target(body))
        found = await self._find(chosen, caller.limited_to, MOVED_AT_ONCE, MOVE_IN_PARTS)
        mover, ids = Editor(caller.name, caller.bearer, caller.limited_to), [job.id for job, _ in found.jobs]
        handler = partial(move, ids=ids, place=place, mover=mover, key=body.key, digest=request_digest)
        done = await self._engine.change(handler, short=len(ids) <= BRIEF_MAX)
        return document(bulk_document(replace(done, notes=[*_notes(found), *done.notes])))

    async def _target(self, body: MoveBody) -> int | None:
        """Return the job beside which others go: a job of any caller, because the move does not change it."""
        if (body.target is None) != (body.where in ("first", "last")):
            raise BadInput("before and after take one target job, first and last take none")
        if body.target is None:
            return None
        found = await self._find(requests.parse_selectors([body.target]), None, 1, "name one job as the target")
        return found.jobs[0].job.id if found.jobs else None

    async def _find(self, chosen: Sequence[Selector], limited_to: str | None, most: int, hint: str) -> Found:
        """Return the selected jobs; raise Refused for one that was named by its id and has started."""
        jobs: list[Selected] = []
        environments: dict[bytes, bytes] = {}
        started = 0
        reading: Reading | None = None
        while reading is None or not reading.is_over:
            some, bodies, reading = await self._engine.read(partial(_page, chosen, limited_to, reading))
            environments |= bodies
            for job, named in some:
                why = why_not(job)
                if why is None:
                    jobs.append(Selected(job, named))
                elif named:
                    raise Refused(why)
                started += why is not None
            if len(jobs) > most:
                raise BadInput(f"more than {most:,} jobs are selected; {hint}")
        if started and not jobs:
            raise Refused("all of these jobs have started; only a job that has not started can be changed so")
        return Found(jobs, environments, started)


def _answer(edited: EditResult, notes: Sequence[str] = ()) -> web.Response:
    done = replace(edited.done, notes=[*notes, *edited.done.notes][:NOTES_MAX])
    answer: EditedDocument = {
        **bulk_document(done),
        "changed": {str(job): what for job, what in edited.what.items()},
    }
    return document(answer)


def _page(
    chosen: Sequence[Selector], limited_to: str | None, reading: Reading | None, batch: Batch
) -> tuple[list[Selected], dict[bytes, bytes], Reading]:
    """Return the next selected jobs, their environments, and the reading after them."""
    some, reading = selection.read(batch, reading or selection.begin(batch, chosen, limited_to), STEP_JOBS)
    digests = {job.spec.env_digest for job, _ in some if why_not(job) is None}
    return some, {each: batch.store.environment(each) or b"\x90" for each in digests}, reading


def _check_version(found: Found, version: str) -> None:
    if len(found.jobs) != 1:
        raise BadInput("a version is of one job; name one")
    if version_of(job := found.jobs[0].job) != version:
        raise Refused(f"job {job.id} was edited meanwhile; nothing was changed")


def _edits(builder: DraftBuilder, body: EditBody, found: Found) -> tuple[list[EditedJob], list[str]]:
    """Return the jobs after the edit, without those that stay as they are, and notes."""
    given = {name: _plain(name, value) for name, value in body.set.items()}
    changes, cwd = editing.read(given, builder.known.resources), requests.word_bytes(body.cwd)
    edits = [
        edited
        for job, named in found.jobs
        if (edited := _edited(job, named, changes, builder, cwd, found.environments[job.spec.env_digest])) is not None
    ]
    missing = {each.spec.queue for each in edits if each.spec.queue != each.before.spec.queue}
    return edits, [
        f"there is no queue {shown(queue)} yet; jobs there wait until it is created"
        for queue in sorted(missing - builder.known.offers.keys())
    ]


def _edited(
    job: Job, named: bool, changes: editing.OptionChanges, builder: DraftBuilder, cwd: bytes, environment: bytes
) -> EditedJob | None:
    """Return a job after the edit, checked like a new one; None if it stays as it is."""
    caller, before = builder.submitter.caller, options_of(job)
    _refuse_foreign(job, caller)
    edition = changes.applied_to(job, builder.known.has_prefix)
    words, options = edition.words, edition.options
    if words != job.spec.command:
        # What the parameters said of the command may no longer be so.
        options = replace(options, parameters=())
    if caller.is_at_home:
        options = _rooted(options, before, cwd)
    request = job.spec.request if edition.keeps_amounts else builder.request_of(options)
    waits = edition.after or edition.is_timed
    is_same = words == job.spec.command and request == job.spec.request
    if is_same and not waits and replace(options, request=None) == before:
        return None
    builder = replace(builder, submitter=_submitter(job, options, caller, cwd, environment))
    if words == job.spec.command and all(getattr(options, name) == getattr(before, name) for name in LOOKED_UP):
        # What the job needs of the disk stays as it is, so it is not looked for again.
        builder = replace(builder, program_check=builder.program_check.cached())
    if edition.keeps_amounts and options.queue != before.queue and request != builder.default:
        # The amounts count as asked for: a queue with slots refuses them.
        options = replace(options, request=dict(request))
    check_command(words, options, builder.known)
    draft = builder.draft(words, options, request)
    spec = replace(_still_in_sweep(draft.spec, job.spec), by=job.spec.by, env_digest=job.spec.env_digest)
    if job.spec.dependencies:
        spec = replace(spec, dependencies=job.spec.dependencies)
    new = NewWaits(edition.after, edition.is_timed, draft.at, draft.in_s)
    return EditedJob(job, spec, draft.name, draft.priority, named, new if waits else NewWaits())


def _still_in_sweep(spec: Spec, before: Spec) -> Spec:
    """Return the spec of an edited job as the part of its array and its sweep that it was."""
    parts = {name: getattr(before, name) for name in ("array_index", "array_of", "sweep", "point")}
    return replace(regrouped(spec, before), **parts)


def _rooted(options: JobOptions, before: JobOptions, cwd: bytes) -> JobOptions:
    """Return the options with new relative paths relative to the caller's directory, as at a submission."""
    if options.cwd is not None and options.cwd != before.cwd and not options.send:
        options = replace(options, cwd=os.path.join(cwd, options.cwd))
    if options.fetch_to is not None and options.fetch_to != before.fetch_to:
        options = replace(options, fetch_to=os.path.join(cwd, options.fetch_to))
    return options


def _refuse_foreign(job: Job, caller: Principal) -> None:
    """Refuse the edit of a job of the broker's own machine from another: such a job may do more than a remote one."""
    if not caller.is_at_home and job.spec.constraints.remote is None:
        raise Refused(f"job {job.id} was submitted on the broker's machine, and can be edited only there")


def _submitter(job: Job, options: JobOptions, caller: Principal, cwd: bytes, environment: bytes) -> Submitter:
    """Return the submitter of the edited job: where and how it was submitted, with the rights of the caller."""
    spec, remote = job.spec, job.spec.constraints.remote
    if remote is not None:
        bare = caller.bare if caller.token == spec.by else remote.bare
        scope, queues, limits = caller.scope, caller.queues, caller.limits
        # The token of another is named so that the job stays one from another machine.
        rights = Principal(scope, spec.by or caller.token or "-", caller.name, queues, bare, limits)
        return Submitter(umask=spec.umask, caller=rights)
    env = Environment(dict(_pairs(environment)), environment, spec.env_digest)
    if options.cwd is None and spec.own_cwd:
        return Submitter(cwd, env, spec.umask, caller)
    # The directory in a spec is relative only within a folder that is sent.
    return Submitter(spec.cwd if spec.cwd.startswith(b"/") else b"/", env, spec.umask, caller)


def _plain(name: str, value: object) -> object:
    """Return a value with its words as bytes; variables and amounts by name stay a mapping."""
    if isinstance(value, dict) and name in MAPPINGS:
        return {key: _plain("", each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain("", each) for each in value]
    return requests.word_bytes(value) if isinstance(value, str | dict) else value


def _notes(found: Found) -> list[str]:
    if not found.started:
        return []
    some = "1 of the selected jobs has" if found.started == 1 else f"{found.started} of the selected jobs have"
    return [f"{some} started, and cannot be changed so"]


def _editable_document(job: Job) -> EditableJobDocument:
    values = {name: _sendable(value) for name, value in values_of(job).items()}
    return {"id": job.id, "state": job.state, "version": version_of(job), "values": values}


def _sendable(value: object) -> object:
    if isinstance(value, list):
        return [_sendable(each) for each in value]
    return rundir.encode_word(value) if isinstance(value, bytes) else value
