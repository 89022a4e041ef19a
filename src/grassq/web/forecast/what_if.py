"""What if: the queue played forward with one more job, or with another capacity. Nothing is stored.

POST /v1/what-if takes the words of `grass enqueue`; GET /v1/what-if takes a capacity and selectors.
"""

from __future__ import annotations

from functools import partial

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.documents.when import EtaJobDocument
from grassq.broker.engine import Engine
from grassq.broker.forecasts import reading
from grassq.broker.forecasts.documents import eta_document, forecast_document, interval_document
from grassq.broker.forecasts.reading import Asked
from grassq.broker.tokens import Bearer
from grassq.core.forecast.forecast import Forecast
from grassq.core.forecast.scene import Scene
from grassq.core.model import FINAL, State, WorkerInfo
from grassq.core.names import shown
from grassq.core.planner.request_classes import shape_of
from grassq.core.resources.capacity import Capacity, parse_limits, supply_of
from grassq.errors import BadInput, NotFound
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import SELECTORS, Description, Parameter
from grassq.web.access.principal import CALLER
from grassq.web.answers.forecasts import ImaginedJobDocument, OtherCapacityDocument, PlayOutcomeDocument
from grassq.web.forecast.eta import read_asked
from grassq.web.forecast.forecaster import BUDGET_S, Forecaster
from grassq.web.responses import document
from grassq.web.submit.handler import Submissions
from grassq.web.submit.json5_text import parse_object

NOTES_MAX = 5


class _Imagined(Struct, frozen=True):
    """A job that is not stored, and the board without it."""

    asked: Asked
    scene: Scene
    default: str | None


class WhatIf:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, forecaster: Forecaster, submissions: Submissions) -> None:
        self._engine = engine
        self._forecaster = forecaster
        self._submissions = submissions

    def routes(self) -> list[Route]:
        """Return the routes; the words of a job are read with the rights of a submitter."""
        capacity = Description(
            "forecasts",
            "When jobs would end with another capacity",
            OtherCapacityDocument,
            query=(
                Parameter("capacity", "What a worker would have, in JSON5: `{gpu: 8}`", is_required=True),
                Parameter("on", "The worker that would have it"),
                SELECTORS,
            ),
        )
        job = Description(
            "forecasts", "When and where a job would start and end", ImaginedJobDocument, body=requests.WhatIfBody
        )
        return [
            Route("GET", "/v1/what-if", self.capacity, "read", about=capacity),
            Route("POST", "/v1/what-if", self.job, "submit", about=job),
        ]

    async def job(self, request: web.Request) -> web.Response:
        """Answer with when and where a job would start and end if it were submitted now."""
        body = requests.decode(request[BODY], requests.WhatIfBody)
        request[ENTRY].about = "nothing was stored"
        draft, warnings = await self._submissions.drafted(body, request)
        await self._forecaster.learn()
        handler = partial(_imagine, draft=draft, bearer=request[CALLER].bearer)
        found = await self._engine.read(handler)
        scene = found.scene
        if body.capacity is not None:
            scene = _with_capacity(scene, body.capacity, body.on, found.default)
        made, told = await self._forecaster.in_turn(partial(self._tell, _joined(scene, found.asked), found.asked))
        answer: ImaginedJobDocument = {**forecast_document(made), "job": told, "warnings": list(warnings)}
        return document(answer)

    async def capacity(self, request: web.Request) -> web.Response:
        """Answer with when jobs end now, and when they would end with another capacity."""
        text, chosen = request.query.get("capacity"), requests.selectors(request)
        if not text:
            raise BadInput('what-if needs the words of a job, or a capacity such as --capacity "{gpu: 8}"')
        asked, is_whole = await read_asked(self._engine, chosen) if chosen else ([], True)
        await self._forecaster.learn()
        scene, default, count = await self._engine.read(_as_it_is)
        changed = _with_capacity(scene, text, request.query.get("on"), default)
        jobs = [each for each in asked if each.job.state not in FINAL] if chosen else None
        after, outcomes = await self._forecaster.in_turn(partial(self._compare, scene, changed, jobs))
        answer: OtherCapacityDocument = {
            **forecast_document(after),
            "before": outcomes[0],
            "after": outcomes[1],
            "notes": _limits(scene, changed),
            "selected": len(asked),
            "unfinished": count if jobs is None else len(jobs),
            "more": not is_whole,
        }
        return document(answer)

    def _tell(self, scene: Scene, asked: Asked) -> tuple[Forecast, EtaJobDocument]:
        """Play a scene and return what it says of a job; called in a thread."""
        made = self._forecaster.play(scene)
        told = eta_document(asked.job, made.of(asked.job, asked.place))
        told["id"] = None
        return made, told

    def _compare(
        self, scene: Scene, changed: Scene, jobs: list[Asked] | None
    ) -> tuple[Forecast, tuple[PlayOutcomeDocument, PlayOutcomeDocument]]:
        """Play two scenes and return the second forecast, and what comes of each; called in a thread."""
        before = self._forecaster.play(scene, None, BUDGET_S / 2)
        after = self._forecaster.play(changed, None, BUDGET_S / 2)
        return after, (_outcome(before, jobs), _outcome(after, jobs))


def _as_it_is(batch: Batch) -> tuple[Scene, str | None, int]:
    """Return the scene, the default worker, and how many jobs run or wait."""
    board = batch.board
    return reading.scene(batch), board.roles.default, len(board.holding) + board.queued() + len(board.timed)


def _imagine(batch: Batch, draft: service.Draft, bearer: Bearer) -> _Imagined:
    job = service.imagined(batch, draft, bearer)
    place = batch.board.line(shape_of(job)).before(job.order) if job.state is State.QUEUED else 0
    return _Imagined(Asked(job, place), reading.scene(batch), batch.board.roles.default)


def _joined(scene: Scene, asked: Asked) -> Scene:
    """Return the scene with the job in its line, unless jobs before it are not played either."""
    job = asked.job
    played = sum(shape_of(each) == shape_of(job) for each in scene.queued)
    if job.state is not State.QUEUED or asked.place > played:
        return scene
    return scene.with_job(job)


def _with_capacity(scene: Scene, text: str, worker: str | None, default: str | None) -> Scene:
    """Return the scene with another capacity of one worker; what is not named stays."""
    capacity: Capacity = {
        name: supply_of(limit) for name, limit in parse_limits(parse_object(text, "--capacity")).items()
    }
    infos = {each.said.name: each.said for each in scene.workers}
    if worker is None:
        worker = default if default in infos else next(iter(infos)) if len(infos) == 1 else None
    if worker is None:
        raise BadInput(f"--on WORKER says which worker would have it: {', '.join(sorted(infos)) or 'there is none'}")
    if worker not in infos:
        raise NotFound(f"there is no worker {shown(worker)}; `grass show` lists them")
    info: WorkerInfo = infos[worker]
    changed: WorkerInfo = replace(info, given=info.given | capacity, looked_for=frozenset())
    return scene.with_worker(worker, changed)


def _limits(before: Scene, after: Scene) -> list[str]:
    """Return which queues have limits of their own for what would change."""
    found = []
    for old, new in zip(before.workers, after.workers, strict=True):
        changed = {name for name, supply in new.said.given.items() if old.said.given.get(name) != supply}
        for offer in new.said.offers:
            found += [
                f"queue {shown(offer.queue)} keeps its own limit of {name}" for name in offer.limits if name in changed
            ]
    return found[:NOTES_MAX]


def _outcome(forecast: Forecast, jobs: list[Asked] | None) -> PlayOutcomeDocument:
    """Return when the selected jobs, or all jobs, are over, and how long they wait on average."""
    if jobs is None:
        over, unknown, wait_s = forecast.everything(), 0, forecast.mean_wait_s()
    else:
        over, unknown = forecast.over((each.job, each.place) for each in jobs)
        likely = [
            found.starts.likely for each in jobs if (found := forecast.of(each.job, each.place)).starts is not None
        ]
        waits = [max(0.0, at - forecast.scene.wall) for at in likely]
        wait_s = sum(waits) / len(waits) if waits else None
    mean = None if wait_s is None else round(wait_s, 3)
    return {"done": interval_document(over), "without_estimate": unknown, "mean_wait_s": mean}
