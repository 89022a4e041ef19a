"""Two brokers on one database: one leads, and the other takes over when it is gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.builders import a_job
from tests.postgres import shared
from tests.store.batches import MANY, new, text
from tests.store.proxy import Proxy

from grassq.daemon.standby import LEAD_TRY_S
from grassq.errors import Deposed, StoreUnavailable
from grassq.store.postgres import LEAD_LOST_S, PostgresStore
from grassq.store.postgres_session import SILENT_S

Make = Callable[..., PostgresStore]
STALE = "update leader set beat = clock_timestamp() - interval '4.5 seconds'"


@pytest.fixture
def make(database: str) -> Iterator[Make]:
    """Brokers' stores on one database, none of them leading yet."""
    made: list[PostgresStore] = []

    def one(url: str = database, answer_s: float = 10.0) -> PostgresStore:
        made.append(PostgresStore(url, answer_s=answer_s))
        return made[-1]

    yield one
    for store in made:
        store.close()


def leads(store: PostgresStore, within_s: float) -> float:
    """Ask until it leads; how long that took."""
    began = time.monotonic()
    while not store.try_lead():
        assert time.monotonic() - began < within_s, "nobody took over"
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_second_broker_stands_by_and_knows_who_leads(make: Make) -> None:
    first, second = make(), make()
    assert first.try_lead() and not second.try_lead()
    assert second.leader == socket.gethostname()[:24]
    first.commit(new(a_job(1)))
    assert not second.try_lead()


def test_one_that_resigns_is_followed_at_once(make: Make) -> None:
    first, second = make(), make()
    assert first.try_lead()
    first.commit(new(a_job(1)))
    first.close()
    assert second.try_lead()
    assert [job.id for job in second.load(MANY).jobs] == [1] and second.number == 1


@pytest.mark.parametrize("way", ["'4.5 seconds'", "'-1 hour'"], ids=["silent", "the clock was set back"])
def test_the_first_one_can_do_nothing_after_a_takeover(make: Make, database: str, way: str) -> None:
    first, second = make(), make()
    assert first.try_lead()
    first.commit(new(a_job(1)))
    shared().sql(f"update leader set beat = clock_timestamp() - interval {way}", database)
    assert second.try_lead()
    for act in (
        lambda: first.commit(new(a_job(2))),
        first.beat,
        lambda: first.load(MANY),
        lambda: first.begin("another life"),
    ):
        with pytest.raises(Deposed, match=r"another broker has taken postgresql://grass@/.* over"):
            act()
    second.commit(new(a_job(3)))
    first.close()
    assert text(second, "all") == [1, 3] and second.load(MANY).incarnations == {}
    second.beat()


def test_a_silent_leader_is_followed_within_seconds_and_not_before(make: Make) -> None:
    first, second = make(), make()
    assert first.try_lead()
    first.beat()
    took_s = leads(second, LEAD_LOST_S + 2)
    assert took_s > LEAD_LOST_S - 0.5
    with pytest.raises(Deposed):
        first.commit(new(a_job(1)))


def test_a_beat_in_time_keeps_the_lead(make: Make, database: str) -> None:
    first, second = make(), make()
    assert first.try_lead()
    shared().sql(STALE, database)
    first.beat()
    assert not second.try_lead()
    shared().sql(STALE, database)
    first.commit(new(a_job(1)))
    assert not second.try_lead()
    assert LEAD_TRY_S < LEAD_LOST_S and first.beat_s is not None and 3 * first.beat_s < LEAD_LOST_S


@pytest.mark.parametrize("what", ["a new database", "a dead leader"])
def test_of_many_that_race_one_leads(make: Make, database: str, what: str) -> None:
    for _ in range(1 if what == "a new database" else 8):
        stores = [make() for _ in range(5)]
        if what == "a dead leader":
            leads(stores[0], 1)
            shared().sql(STALE, database)
            stores = stores[1:]
        winners: list[PostgresStore] = []
        start = threading.Barrier(len(stores))

        def race(store: PostgresStore, start: threading.Barrier, winners: list[PostgresStore]) -> None:
            start.wait()
            if store.try_lead():
                winners.append(store)

        threads = [threading.Thread(target=race, args=(store, start, winners)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert [store for store in stores if store is not winners[0] and store.try_lead()] == []
        winners[0].beat()
        winners[0].close()


@pytest.mark.parametrize("where", ["between two statements", "in the middle of one"])
def test_a_leader_that_freezes_in_mid_commit_is_followed_and_left_nothing(
    make: Make, database: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(shared().socket)
    first, second = make(proxy.url(database), 0.5), make()
    assert first.try_lead()
    # Once its statements are prepared, every commit is as long as the one before; the last to come is COMMIT itself.
    for job in range(1, 9):
        proxy.count()
        first.commit(new(a_job(job)))
    if where == "in the middle of one":
        # Executed, but not synced: a client that has not finished its sentence. No limit of the server's ends that.
        proxy.freeze(after=proxy.passed["client"].count(b"E") - 1, kind=b"E")
        monkeypatch.setattr("grassq.store.postgres.LEAD_STUCK_S", LEAD_LOST_S)
    else:
        proxy.freeze(after=proxy.passed["client"].count(b"S") - 1, kind=b"S")
    with pytest.raises(StoreUnavailable, match=r"no answer for 0.5 s"):
        first.commit(new(a_job(9)))
    assert not second.try_lead()
    leads(second, LEAD_LOST_S + SILENT_S + 2)
    assert text(second, "all") == [1, 2, 3, 4, 5, 6, 7, 8]
    second.commit(new(a_job(9)))
    proxy.heal()
    with pytest.raises(Deposed):
        first.load(MANY)
    assert second.number == 9
    proxy.close()


def test_nothing_can_be_asked_of_a_store_that_does_not_lead(make: Make) -> None:
    first, second = make(), make()
    assert first.try_lead() and not second.try_lead()
    for act in (lambda: make().commit(new(a_job(1))), second.beat, lambda: second.load(MANY)):
        with pytest.raises(Deposed):
            act()
    assert text(first, "all") == []
