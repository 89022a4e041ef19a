"""What GET /v1/why adds: when a job starts and ends, and what would let it start now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from grassq.broker.batch import Batch
from grassq.broker.documents.why import WhyJobDocument
from grassq.broker.engine import Engine
from grassq.broker.forecasts import reading
from grassq.broker.forecasts.documents import interval_document
from grassq.broker.forecasts.reading import Asked
from grassq.core.forecast.forecast import Forecast
from grassq.core.forecast.hints import find_hints
from grassq.core.forecast.scene import Scene
from grassq.core.model import State
from grassq.web.forecast.forecaster import Forecaster

#: How long the plays for `why` may take: it is asked to learn the reason first.
BUDGET_S = 0.1
#: Of how many jobs in an answer the planner is asked for hints.
HINTED_MAX = 4


class When:
    """Adds to the documents of `why`."""

    def __init__(self, engine: Engine, forecaster: Forecaster) -> None:
        self._engine = engine
        self._forecaster = forecaster

    async def describe(self, documents: Sequence[WhyJobDocument]) -> None:
        """Add `when` to every job that has not ended, and `hints` to the first queued ones."""
        ids = [document["id"] for document in documents if document["state"] in _UNFINISHED]
        if not ids:
            return
        forecast = await self._forecaster.latest(BUDGET_S)
        asked = {each.job.id: each for each in await self._engine.read(partial(_with_places, ids=ids))}
        blocked = [each for each in documents if each["blocked"] and each["id"] in asked]
        scene = await self._engine.read(reading.scene) if blocked else None
        await self._forecaster.in_turn(partial(_add, documents, asked, forecast, scene))


_UNFINISHED = frozenset({"queued", "placed", "running"})


def _with_places(batch: Batch, ids: list[int]) -> list[Asked]:
    return reading.with_places(batch, batch.fetch(ids).values())


def _add(
    documents: Sequence[WhyJobDocument], asked: Mapping[int, Asked], forecast: Forecast, scene: Scene | None
) -> None:
    """Add what the forecast says of each job, and hints from a scene; called in a thread."""
    hinted = 0
    for document in documents:
        found = asked.get(document["id"])
        if found is None:
            continue
        when = forecast.of(found.job, found.place)
        document["when"] = {
            "starts": interval_document(when.starts),
            "ends": interval_document(when.ends),
            "basis": when.basis,
            "n": when.count,
            "reason": when.why,
        }
        is_blocked = document["blocked"] and found.job.state is State.QUEUED
        if is_blocked and scene is not None and hinted < HINTED_MAX:
            document["hints"] = find_hints(scene, found.job)
            hinted += 1
