"""The kept attempts of a timeline: the removal of many jobs does not hold the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.builders import a_job

from grassq.broker.engine import Engine
from grassq.broker.job_change import change_of
from grassq.broker.subscriptions import Subscriptions
from grassq.core.model import State
from grassq.errors import StoreUnavailable
from grassq.store.base import PastRun, RunPosition
from grassq.web.timeline.past import PastAttempts

COUNT = 20_000


class KeptRuns:
    """An engine whose store has one run of each of COUNT jobs."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions("epoch")
        self._batch = SimpleNamespace(store=self)
        self.is_away = False

    def runs_before(self, before: RunPosition, limit: int) -> list[PastRun]:
        first = min(COUNT, int(min(before[0], COUNT + 1)) - 1)
        return self.runs_of(range(first, max(0, first - limit), -1))

    def runs_of(self, ids: Iterable[int]) -> list[PastRun]:
        return [
            PastRun(id_, "q", None, None, State.SUCCEEDED, 0.0, float(id_), 1, True, "w", {}, id_ - 0.5, float(id_))
            for id_ in ids
        ]

    async def read(self, look: Callable[[Any], Any]) -> Any:
        if self.is_away:
            raise StoreUnavailable("the store is away")
        return look(self._batch)


def test_many_single_removals_are_heard_at_once() -> None:
    async def test() -> None:
        engine = KeptRuns()
        kept = PastAttempts(cast(Engine, engine))
        found = await kept.between(0.0, COUNT)
        while len(found) < COUNT:
            found = await kept.between(0.0, COUNT)
        ended = a_job(1, state=State.SUCCEEDED)
        # Every second job: no two of them are one range.
        numbered = [(change_of(ended, seq, 0.0, "removed"), 2 * seq) for seq in range(1, COUNT // 2 + 1)]
        engine.subscriptions.publish([replace(change, job=id_, last=id_) for change, id_ in numbered])
        began = time.process_time()
        left = await kept.between(0.0, COUNT)
        assert time.process_time() - began < 2.0
        assert [each.job for each in left] == list(range(COUNT - 1, 0, -2))
        await kept.close()

    asyncio.run(test())


def test_what_ended_while_the_store_was_away_is_read_later() -> None:
    async def test() -> None:
        engine = KeptRuns()
        kept = PastAttempts(cast(Engine, engine))
        late = COUNT + 5
        await kept.between(late, late)
        engine.subscriptions.publish([change_of(a_job(late, state=State.SUCCEEDED), 1, 0.0, "exited")])
        engine.is_away = True
        with pytest.raises(StoreUnavailable):
            await kept.between(late, late)
        engine.is_away = False
        assert [each.job for each in await kept.between(late, late)] == [late]
        await kept.close()

    asyncio.run(test())
