"""GET /v1/timeline: what ran, runs and is planned on every device between two times."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from functools import partial

import msgspec
from aiohttp import web
from msgspec import Struct

from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Position, position_text
from grassq.broker.summary.timeline import Present, fetched_infos, present
from grassq.broker.views import SCHEMA, Document
from grassq.core.timeline.blocks import LaneBlock
from grassq.errors import BadInput
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.forecast.forecaster import Forecaster
from grassq.web.requests import number
from grassq.web.timeline.documents import ShownLanes, TimelineDocument, Window, lane_documents, merged_lanes
from grassq.web.timeline.past import PastAttempts
from grassq.web.timeline.plan import Planner, TimelinePlan

PX_DEFAULT, PX_MAX = 1_000, 20_000
#: The default of `from`: this long before now.
BACK_S = 86400.0
#: A window is at least and at most this long; times far from now are no finer than a fraction of the least.
WINDOW_MIN_S, WINDOW_MAX_S = 0.01, 10 * 366 * 86400.0
#: The jobs that an answer tells something of, the newest ones, and how many of them are read in one batch.
JOBS_TOLD, JOBS_AT_ONCE = 1_000, 250
#: Ended jobs whose words are kept for the next answer.
INFOS_KEPT = 5_000
#: An answer is used again for this long if nothing has changed, and for the shorter time whatever has.
SAME_S, SHARED_S = 1.0, 0.2
ANSWERS_KEPT = 16


class GivenAnswer(Struct, frozen=True):
    """An answer that was given."""

    raw: bytes
    made: float
    position: Position


class Timeline:
    """The handler of the route."""

    def __init__(self, engine: Engine, forecaster: Forecaster) -> None:
        self._engine = engine
        self._past = PastAttempts(engine)
        self._planner = Planner(engine, forecaster)
        self._infos: OrderedDict[int, Document] = OrderedDict()
        self._answers: OrderedDict[tuple[float, float, int], GivenAnswer] = OrderedDict()
        self._lock = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the route."""
        about = Description(
            "forecasts",
            "What ran, runs and is planned on every device between two times",
            TimelineDocument,
            query=(
                Parameter("from", "Seconds since the epoch", float, "a day before now"),
                Parameter("to", "Seconds since the epoch, also in the future", float, "now"),
                Parameter("px", "The pixels on which the time is drawn: narrower blocks are merged", int, PX_DEFAULT),
            ),
        )
        return [Route("GET", "/v1/timeline", self.serve, "read", about=about)]

    async def close(self) -> None:
        """Read nothing more."""
        await self._past.close()
        await self._planner.close()

    async def serve(self, request: web.Request) -> web.Response:
        """Answer with lanes and blocks."""
        now = time.time()
        begin, end = _seconds(request, "from", now - BACK_S), _seconds(request, "to", now)
        px = max(1, number(request, "px", PX_DEFAULT, PX_MAX))
        if not WINDOW_MIN_S <= end - begin <= WINDOW_MAX_S:
            raise BadInput(f"from= is before to=, by {WINDOW_MIN_S:g} seconds at least and ten years at most")
        # Whole pixels, so that pages with the same picture ask the same.
        step = (end - begin) / px
        window = Window(math.floor(begin / step) * step, math.ceil(end / step) * step, px)
        async with self._lock:
            raw = await self._answer(window)
        return web.Response(body=raw, content_type="application/json")

    async def _answer(self, window: Window) -> bytes:
        """Return the answer, or the one that was given to the same question a moment ago."""
        key, at = (window.begin, window.end, window.px), time.monotonic()
        position = self._engine.subscriptions.position
        known = self._answers.get(key)
        if known is not None and at - known.made < (SAME_S if known.position == position else SHARED_S):
            return known.raw
        raw = await self._made(window)
        self._answers[key] = GivenAnswer(raw, at, position)
        while len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)
        return raw

    async def _made(self, window: Window) -> bytes:
        past = await self._past.between(window.begin, window.end)
        now = await self._engine.read(present)
        has_future = window.end > now.now
        plan = await self._planner.latest() if has_future else None
        shown = await asyncio.to_thread(merged_lanes, window, now, past, plan)
        infos = await self._told(shown, now, plan)
        known_from = self._past.known_from
        epoch, _ = self._engine.subscriptions.position
        told: Document = {
            "schema": SCHEMA,
            "now": now.now,
            "from": window.begin,
            "to": window.end,
            "is_whole": known_from is None or known_from <= window.begin,
            "known_from": known_from,
            "plan": plan is not None or not has_future,
            "is_plan_current": self._planner.is_current(plan) if has_future else True,
            "since": position_text((epoch, now.seq)),
        }
        return await asyncio.to_thread(_encoded, told, shown, now, plan, infos)

    async def _told(self, shown: ShownLanes, now: Present, plan: TimelinePlan | None) -> dict[str, Document]:
        """Return what is told of the jobs in blocks; words of ended jobs are kept, as they do not change."""
        drawn = {block.job for blocks in shown.values() for block in blocks if isinstance(block, LaneBlock)}
        ids = sorted(drawn, reverse=True)[:JOBS_TOLD]
        fresh = (plan.jobs if plan is not None else {}) | now.jobs
        unknown = [id_ for id_ in ids if id_ not in fresh and id_ not in self._infos]
        for at in range(0, len(unknown), JOBS_AT_ONCE):
            self._infos |= await self._engine.read(partial(fetched_infos, ids=unknown[at : at + JOBS_AT_ONCE]))
        told = {str(id_): info for id_ in ids if (info := fresh.get(id_) or self._infos.get(id_)) is not None}
        while len(self._infos) > INFOS_KEPT:
            self._infos.popitem(last=False)
        return told


def _encoded(
    told: Document,
    shown: ShownLanes,
    now: Present,
    plan: TimelinePlan | None,
    infos: dict[str, Document],
) -> bytes:
    return msgspec.json.encode({**told, "lanes": lane_documents(shown, now, plan), "jobs": infos})


def _seconds(request: web.Request, name: str, default: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or abs(seconds) > 1e12:
        raise BadInput(f"{name}={text[:40]!r} is not a time in seconds since the epoch")
    return seconds
