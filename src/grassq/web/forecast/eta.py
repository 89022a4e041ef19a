"""GET /v1/eta: when jobs start and end, as intervals, and when all of them are over."""

from __future__ import annotations

from functools import partial

from aiohttp import web
from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.forecasts import predictions, reading
from grassq.broker.forecasts.documents import eta_document, forecast_document, interval_document
from grassq.broker.forecasts.reading import Asked
from grassq.broker.selection import Reading
from grassq.broker.summary.line import line_jobs
from grassq.core.forecast.forecast import SHARE, Forecast
from grassq.core.model import FINAL, State
from grassq.core.syntax.selectors import Selector
from grassq.web import requests
from grassq.web.access.auth import Route
from grassq.web.access.description import SELECTORS, Description
from grassq.web.answers.forecasts import CheckedDocument, EtaDocument
from grassq.web.forecast.forecaster import Forecaster
from grassq.web.responses import document

#: Without a selector: how many running and how many queued jobs are in an answer.
RUNNING_SHOWN = 100
NEXT_SHOWN = 20
#: With a selector: how many jobs are in an answer, and how many are looked at to tell when the last of them ends.
SELECTED_SHOWN = 500
SELECTED_MAX = 5_000
#: Of how many selectors of a longer selection the newest jobs are read.
LAST_SELECTORS = 20


class Eta:
    """The handlers of the routes about when."""

    def __init__(self, engine: Engine, forecaster: Forecaster) -> None:
        self._engine = engine
        self._forecaster = forecaster

    def routes(self) -> list[Route]:
        """Return the routes."""
        eta = Description("forecasts", "When jobs start and end", EtaDocument, query=(SELECTORS,))
        check = Description("forecasts", "How often forecasts held whose time has come", CheckedDocument)
        return [
            Route("GET", "/v1/eta", self.eta, "read", about=eta),
            Route("GET", "/v1/eta/check", self.check, "read", about=check),
        ]

    async def eta(self, request: web.Request) -> web.Response:
        """Answer with when jobs start and end."""
        chosen = requests.selectors(request)
        asked, is_whole = await read_asked(self._engine, chosen) if chosen else ([], True)
        forecast = await self._forecaster.latest()
        if not chosen:
            seen = await self._engine.read(partial(_first_jobs, forecast=forecast))
            return document(await self._forecaster.in_turn(partial(_overview, forecast, seen)))
        shown = [each for each in asked if each.job.state not in FINAL][:SELECTED_SHOWN] or asked[:SELECTED_SHOWN]
        if not is_whole:
            asked += await self._engine.read(partial(reading.last_asked, selectors=chosen[:LAST_SELECTORS]))
        # Of a longer selection, only its first jobs and its newest ones are looked at.
        return document(await self._forecaster.in_turn(partial(_of_selected, forecast, shown, asked, is_whole)))

    async def check(self, request: web.Request) -> web.Response:
        """Answer with how often the intervals of starts and ends held whose time has come."""
        stored = await self._engine.read(predictions.stored)
        answer: CheckedDocument = {"share": SHARE, **predictions.calibration(stored)}
        return document(answer)


async def read_asked(engine: Engine, chosen: list[Selector]) -> tuple[list[Asked], bool]:
    """Return the selected jobs and whether these are all: at most SELECTED_MAX are looked at."""

    def first(batch: Batch) -> tuple[list[Asked], Reading]:
        return reading.asked_page(selection.begin(batch, chosen), batch)

    found, rest = await engine.read(first)
    while not rest.is_over and len(found) < SELECTED_MAX:
        more, rest = await engine.read(partial(reading.asked_page, rest))
        found += more
    return found, rest.is_over


def _of_selected(forecast: Forecast, shown: list[Asked], asked: list[Asked], is_whole: bool) -> EtaDocument:
    """Return when some jobs start and end, and when all that were asked about are over; called in a thread."""
    unfinished = [(each.job, each.place) for each in asked if each.job.state not in FINAL]
    over, unknown = forecast.over(unfinished)
    head = forecast_document(forecast)
    return {
        "now": head["now"],
        "plays": head["plays"],
        "jobs": [eta_document(each.job, forecast.of(each.job, each.place)) for each in shown],
        "done": interval_document(over),
        "without_estimate": unknown,
        "selected": len(asked),
        "unfinished": len(unfinished),
        "more": not is_whole or len(shown) < len(unfinished),
    }


class _Seen(Struct, frozen=True):
    """The jobs of an overview, and how many jobs run and are queued."""

    shown: list[Asked]
    running: int
    queued: int


def _first_jobs(batch: Batch, forecast: Forecast) -> _Seen:
    """Return the running jobs that a forecast knows, and the next ones in the order of now, which may have changed."""
    scene = forecast.scene
    running = sorted((job for job in scene.holding if job.state is State.RUNNING), key=lambda job: job.id)
    queued, count = line_jobs(batch, None, NEXT_SHOWN)
    return _Seen(reading.with_places(batch, [*running[:RUNNING_SHOWN], *queued]), len(running), count)


def _overview(forecast: Forecast, seen: _Seen) -> EtaDocument:
    """Return when the running jobs and the next ones start and end, and when all is over; called in a thread."""
    head = forecast_document(forecast)
    return {
        "now": head["now"],
        "plays": head["plays"],
        "jobs": [eta_document(each.job, forecast.of(each.job, each.place)) for each in seen.shown],
        "done": interval_document(forecast.everything()),
        "running": seen.running,
        "queued": seen.queued,
        "more": seen.running > RUNNING_SHOWN or seen.queued > NEXT_SHOWN,
    }
