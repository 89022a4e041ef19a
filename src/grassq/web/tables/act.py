"""POST /v1/jobs/act: one action on all jobs that match a query, or on a list of jobs, with a preview before it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from msgspec import Meta, field

from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import STEP_JOBS, Action, BulkChange
from grassq.broker.actions.preview import Preview
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.selection import IdReading, Reading, read_ids
from grassq.broker.service import recall
from grassq.broker.views import Document
from grassq.broker.windows.reading import LOOKED_AT_MAX
from grassq.core.job_options import NEUTRAL_PRIORITY, check_bounds
from grassq.core.model import JobId
from grassq.core.query.parse import parse_query
from grassq.errors import BadInput, GrassError, Refused
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER, Principal
from grassq.web.responses import SlowAnswer, bulk_document, digest
from grassq.web.routes.jobs import Jobs
from grassq.web.tables.documents import ActDocument
from grassq.web.tables.windows import JobWindows, View

#: The most ids in a body: those to change, or those to leave out.
IDS_MAX = 10_000

#: How a fingerprint looks: how many jobs matched, and a digest.
FINGERPRINT = r"^[0-9]{1,12}-[0-9a-f]{32}$"
#: Actions on jobs that have ended: of the jobs that match, more end while a person looks at a preview.
ON_ENDED = frozenset({"rerun", "clean"})

Verb = Literal["kill", "rerun", "hold", "release", "priority", "clean"]
Ids = Annotated[list[JobId], Meta(max_length=IDS_MAX)]


class ActBody(requests.Body, kw_only=True):
    """One action on all jobs that match a query, or on a list of jobs."""

    action: Verb
    #: The jobs that match this query when the action runs.
    q: str | None = None
    #: These jobs, instead of a query.
    ids: Ids | None = None
    #: The jobs that are left alone.
    excluded: Ids = field(default_factory=list, name="except")
    #: Only jobs up to this id: those that were there when a preview was made.
    upto: int | None = None
    #: Of a preview: refuse the action if it is about other jobs by now.
    fingerprint: Annotated[str, Meta(pattern=FINGERPRINT)] | None = None
    #: Only tell what the action would do.
    preview: bool = False
    priority: int = NEUTRAL_PRIORITY
    grace_s: float | None = None
    #: Clean: remove jobs from all lists, and leave their logs.
    keep_logs: bool = False

    def __post_init__(self) -> None:
        check_bounds(grace_s=self.grace_s, priority=self.priority)
        if (self.q is None) == (self.ids is None):
            raise ValueError("say which jobs: either `q` or `ids`")

    def action_of(self, caller: Principal) -> Action:
        """Return the action; what a token may not do is refused."""
        match self.action:
            case "kill":
                return actions.KillJobs(self.grace_s)
            case "hold":
                return actions.HoldJobs()
            case "release":
                return actions.ReleaseJobs(caller.by)
            case "clean":
                return actions.CleanJobs(keep_logs=self.keep_logs)
            case "priority":
                if caller.limits is not None:
                    caller.limits.check_priority(self.priority)
                return actions.SetPriority(self.priority)
            case "rerun":
                # A job that was chosen by itself is run again whatever became of its later runs.
                return actions.RerunLast(caller.bearer) if self.ids is None else actions.RerunJobs(caller.bearer)

    @property
    def about(self) -> str:
        """What the audit says."""
        what = f"q={self.q}" if self.q is not None else f"{len(self.ids or ())} ids"
        rest = f" except {len(self.excluded)}" if self.excluded else ""
        return f"{'preview ' if self.preview else ''}{self.action} {what}{rest}"


class Acts:
    """The handler of the route."""

    def __init__(self, engine: Engine, windows: JobWindows, jobs: Jobs) -> None:
        self._engine = engine
        self._windows = windows
        self._jobs = jobs

    def routes(self) -> list[Route]:
        """Return the route."""
        about = Description(
            "jobs", "Do one thing to all jobs that match a query, or tell what it would do", ActDocument, body=ActBody
        )
        return [Route("POST", "/v1/jobs/act", self.act, "submit", about=about)]

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Carry out an action, once per key, or tell what it would do. The set of jobs is fixed before the first step.

        Jobs that the action cannot change are skipped; a token that may change its own jobs only skips all others.
        """
        raw = request[BODY]
        body = requests.decode(raw, ActBody)
        request[ENTRY].about = body.about
        action, answer = body.action_of(request[CALLER]), SlowAnswer(request)
        try:
            return await answer.end(await self._answer(request[CALLER], body, action, raw, answer))
        except GrassError as error:
            return await answer.refuse(error)

    async def _answer(
        self, caller: Principal, body: ActBody, action: Action, raw: bytes, answer: SlowAnswer
    ) -> Document:
        signed = digest(b"/v1/jobs/act " + raw)
        if body.preview:
            return await self._preview(caller, body, action, await self._ids(body, answer), answer)
        known = await self._engine.read(partial(_is_known, key=body.key, signed=signed))
        # A repeated request goes on with the set that was fixed; by now the query may match other jobs.
        ids = () if known else await self._ids(body, answer)
        meant = ids
        if not known and body.fingerprint is not None:
            meant = await self._meant(caller, body, action, ids, answer)
            _check_same(body.fingerprint, _fingerprint(body, ids, meant))
        change = BulkChange(
            action, (), key=body.key, digest=signed, visible_to=caller.limited_to, required=False, ids=meant
        )
        if body.action == "clean":
            cleanable = self._changeable(caller, action, meant)
            done: Mapping[str, object] = await self._jobs.clean(change, cleanable, answer, keep_logs=body.keep_logs)
        else:
            done = bulk_document(await self._engine.change_in_steps(change.start, answer.keep_alive))
        return {**done, "preview": False, "action": body.action, "matched": None if known else len(ids)}

    async def _ids(self, body: ActBody, answer: SlowAnswer) -> Sequence[int]:
        """Return the jobs that the action is about, ascending."""
        if body.q is None:
            found: Sequence[int] = sorted({*(body.ids or ())})
        else:
            query = parse_query(body.q)
            found, is_exact = await self._windows.look(query, "id", _all_ids, answer.keep_alive)
            if not is_exact:
                raise BadInput(
                    f"more than {LOOKED_AT_MAX:,} jobs are looked at for this query; say more, such as since:7d"
                )
        gone = {*body.excluded}
        return [id_ for id_ in found if id_ not in gone and (body.upto is None or id_ <= body.upto)]

    async def _preview(
        self, caller: Principal, body: ActBody, action: Action, ids: Sequence[int], answer: SlowAnswer
    ) -> Document:
        seen = Preview(action)
        reading: Reading | IdReading = IdReading(ids, visible_to=caller.limited_to)
        upto = await self._engine.read(lambda batch: batch.next_id - 1, short=True)
        while not reading.is_over:
            reading = await self._engine.read(partial(seen.read, reading=reading))
            await answer.keep_alive()
        meant = await self._meant(caller, body, action, ids, answer)
        return {
            "preview": True,
            "action": body.action,
            "matched": len(ids),
            "fingerprint": _fingerprint(body, ids, meant),
            **seen.document(),
            "upto": upto if body.upto is None else body.upto,
        }

    async def _meant(
        self, caller: Principal, body: ActBody, action: Action, ids: Sequence[int], answer: SlowAnswer
    ) -> Sequence[int]:
        """Return the jobs that are fixed by a fingerprint: of an action on ended jobs those that it would change.

        Other actions change no more of their jobs if they wait, so a job that ends meanwhile makes no other set.
        """
        if body.action not in ON_ENDED:
            return ids
        found: list[int] = []
        async for some in self._changeable(caller, action, ids):
            found += some
            await answer.keep_alive()
        return found

    async def _changeable(self, caller: Principal, action: Action, ids: Sequence[int]) -> AsyncIterator[list[int]]:
        """Yield the ids of the jobs that an action would change, some at a time."""
        reading = IdReading(ids, visible_to=caller.limited_to)
        while not reading.is_over:
            some, reading = await self._engine.read(partial(_changeable, action=action, reading=reading))
            yield some


def _all_ids(view: View) -> tuple[array[int], bool]:
    return view.order.ids(), view.is_exact


def _is_known(batch: Batch, key: str, signed: bytes) -> bool:
    return any(recall(batch, each, signed) is not None for each in (key, f"{key}.set"))


def _fingerprint(body: ActBody, ids: Sequence[int], meant: Sequence[int]) -> str:
    """Return what tells one set of jobs from another: how many they are, and a digest of their ids."""
    hashed = hashlib.blake2b(body.action.encode(), digest_size=16)
    for some in (ids, meant):
        hashed.update(len(some).to_bytes(8))
        hashed.update(array("q", some).tobytes())
    return f"{len(ids)}-{hashed.hexdigest()}"


def _check_same(shown: str, now: str) -> None:
    """Refuse if the jobs of now are not those that were shown."""
    before, after = int(shown.partition("-")[0]), int(now.partition("-")[0])
    if before != after:
        raise Refused(f"{after:,} jobs match now and not {before:,}; look at them again, nothing was done")
    if shown != now:
        raise Refused("other jobs are meant now than those that were shown; look at them again, nothing was done")


def _changeable(batch: Batch, action: Action, reading: IdReading) -> tuple[list[int], IdReading]:
    some, reading = read_ids(batch, reading, STEP_JOBS)
    return [job.id for job, named in some if action.why_not(batch, job, named) is None], reading
