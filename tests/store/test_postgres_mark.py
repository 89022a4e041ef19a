"""A database that was restored: also the broker that only stood by gives none of the ids that the leader gave."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import a_job
from tests.postgres import shared
from tests.store.batches import new

from grassq.core.messages import StoreHistory, StorePosition
from grassq.store.high_water import HighWater
from grassq.store.postgres import PostgresStore


def _led(url: str, incarnation: str) -> PostgresStore:
    store = PostgresStore(url)
    assert store.try_lead()
    store.begin(incarnation)
    return store


def _history(store: PostgresStore, incarnation: str) -> tuple[str, StoreHistory]:
    loaded = store.load(1)
    return loaded.store_id, StoreHistory(StorePosition(incarnation, store.number), "", loaded.incarnations)


@pytest.fixture
def mark(tmp_path: Path) -> HighWater:
    return HighWater(str(tmp_path / "store.mark"), beside_store=False)


def test_a_standby_keeps_its_mark_up_to_date_and_notices_a_restore_when_it_leads(mark: HighWater) -> None:
    url = shared().database()
    first = _led(url, "one")
    for id_ in range(1, 11):
        first.commit(new(a_job(id_)))
    first.close()
    name = url.partition("@/")[2].partition("?")[0]
    shared().sql(f"create database {name}backup template {name}")
    leader, standby = _led(url, "two"), PostgresStore(url)
    for id_ in range(11, 41):
        leader.commit(new(a_job(id_)))
    assert not standby.try_lead()
    progress = standby.progress()
    assert progress is not None and (progress.highest_id, progress.commit) == (40, 40)
    mark.follow(progress)
    leader.close()
    standby.close()
    restored = _led(url.replace(name, f"{name}backup"), "three")
    old = restored.progress()
    assert old is not None
    mark.follow(old)  # a restored store never lowers the mark
    mark.close()
    found = mark.compare(*_history(restored, "three"), was_kept=True)
    assert found is not None and found.is_certain and found.ids_to > 40
    restored.close()


def test_a_standby_that_takes_over_without_a_restore_waits_for_nobody(mark: HighWater) -> None:
    url = shared().database()
    leader, standby = _led(url, "one"), PostgresStore(url)
    assert not standby.try_lead()
    leader.commit(new(a_job(1)))
    progress = standby.progress()
    assert progress is not None
    mark.follow(progress)
    leader.commit(new(a_job(2)))
    leader.close()
    assert standby.try_lead()
    standby.begin("two")
    mark.close()
    assert mark.compare(*_history(standby, "two"), was_kept=True) is None
    standby.close()
