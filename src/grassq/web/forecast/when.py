"""What GET /v1/why adds: when a job starts and ends, and what would let it start now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.forecasts import reading
from grassq.broker.forecasts.documents import interval_document
from grassq.broker.forecasts.reading import Asked
from grassq.broker.views import Document
from grassq.core.forecast.hints import find_hints
from grassq.core.forecast.scene import Scene
from grassq.core.model import Job, State
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

    async def describe(self, documents: Sequence[Document]) -> None:
        """Add `when` to every job that has not ended, and `hints` to the first queued ones."""
        ids = [int(str(document["id"])) for document in documents if document.get("state") in _UNFINISHED]
        if not ids:
            return
        forecast = await self._forecaster.latest(BUDGET_S)
        asked = {each.job.id: each for each in await self._engine.read(partial(_with_places, ids=ids))}
        hinted: list[tuple[Document, Job]] = []
        for document in documents:
            found = asked.get(int(str(document["id"])))
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
            if document.get("blocked") and found.job.state is State.QUEUED:
                hinted.append((document, found.job))
        if hinted:
            scene = await self._engine.read(reading.scene)
            await asyncio.to_thread(_add_hints, scene, hinted[:HINTED_MAX])


_UNFINISHED = frozenset({"queued", "placed", "running"})


def _with_places(batch: Batch, ids: list[int]) -> list[Asked]:
    return reading.with_places(batch, batch.fetch(ids).values())


def _add_hints(scene: Scene, hinted: Sequence[tuple[Document, Job]]) -> None:
    for document, job in hinted:
        document["hints"] = find_hints(scene, job)
