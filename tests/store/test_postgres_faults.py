"""PostgreSQL in trouble: killed, cut off at any step, hung. What was said to be stored is, and a key tells the rest."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.builders import a_job
from tests.postgres import Server, shared
from tests.store.batches import MANY, ended, new, text
from tests.store.proxy import Proxy, Side

from grassq.errors import StoreUnavailable
from grassq.store.base import Changes, Submission
from grassq.store.postgres import PostgresStore

ROOT = Path(__file__).parents[2]
RESTART_S = 20.0


def keyed(job: int) -> Changes:
    """A job and the key it was submitted with."""
    changes = new(a_job(job))
    changes.submissions = {f"k{job}": Submission(f"k{job}", b"d", job, 1, 0.0)}
    return changes


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A line to the shared server that can be cut."""
    line = Proxy(shared().socket)
    yield line
    line.close()


@pytest.fixture
def far(proxy: Proxy, database: str) -> Iterator[PostgresStore]:
    """A store behind the proxy."""
    store = PostgresStore(proxy.url(database), answer_s=1.0)
    assert store.try_lead()
    store.load(MANY)
    yield store
    proxy.heal()
    store.close()


@pytest.mark.parametrize(
    ("side", "unnoticed"), [("client", False), ("server", False), ("client", True), ("server", True)]
)
def test_a_commit_cut_at_any_step_is_stored_or_not_and_its_key_tells(
    far: PostgresStore, proxy: Proxy, side: Side, unnoticed: bool
) -> None:
    jobs, fates = count(100), set()
    for after in range(200):
        far.load(MANY)
        job, before = next(jobs), far.number
        proxy.cut(side, after, unnoticed=unnoticed)
        try:
            far.commit(keyed(job))
            said = True
        except StoreUnavailable:
            said = False
        proxy.heal()
        loaded = far.load(MANY)
        stored = far.submission(f"k{job}") is not None
        assert stored == (job in [one.id for one in loaded.jobs]) and (stored or not said)
        assert far.number == before + stored
        if not stored:
            far.commit(keyed(job))
        assert far.number == before + 1
        fates.add((said, stored))
        if said:
            break
    assert after > 15
    # A commit whose COMMIT never left is never stored; one whose answer was lost is.
    assert fates == {(False, False), (True, True)} if side == "client" else fates > {(False, True)}
    assert text(far, "100-999", 1000) == list(range(100, next(jobs)))


def test_a_commit_that_arrives_after_we_asked_what_became_of_it_is_too_late(far: PostgresStore, proxy: Proxy) -> None:
    for job in range(1, 9):
        proxy.count()
        far.commit(keyed(job))
    # All of it has arrived but the COMMIT, which is on its way.
    proxy.freeze(after=proxy.passed["client"].count(b"S") - 1, kind=b"S")
    with pytest.raises(StoreUnavailable, match="no answer"):
        far.commit(keyed(9))
    proxy.heal()
    far.load(MANY)
    assert far.submission("k9") is None
    proxy.thaw()
    far.commit(keyed(10))
    assert far.submission("k9") is None and far.number == 9
    assert text(far, "all") == [*range(1, 9), 10]


def test_a_cut_line_is_said_in_a_sentence_until_the_store_is_loaded_again(far: PostgresStore, proxy: Proxy) -> None:
    proxy.cut("client", 0)
    with pytest.raises(StoreUnavailable, match=r"postgresql://grass@127.0.0.1:\d+/.* does not answer"):
        far.commit(keyed(1))
    proxy.heal()
    for act in (lambda: far.submission("k1"), far.totals, lambda: far.commit(keyed(1))):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            act()
    far.load(MANY)
    far.commit(keyed(1))


def test_a_beat_mends_a_lost_connection(far: PostgresStore, proxy: Proxy) -> None:
    proxy.cut("client", 0)
    with pytest.raises(StoreUnavailable):
        far.beat()
    proxy.heal()
    far.beat()
    far.commit(keyed(1))


@pytest.mark.parametrize("act", ["commit", "load", "beat", "read"])
def test_a_hung_server_is_given_up_within_the_bound(far: PostgresStore, proxy: Proxy, act: str) -> None:
    far.commit(keyed(1))
    proxy.freeze()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"does not answer \((no answer for 1 s|.*timeout)"):
        if act == "commit":
            far.commit(keyed(2))
        elif act == "load":
            far.load(MANY)
        elif act == "beat":
            far.beat()
        else:
            far.submission("k1")
    assert time.monotonic() - began < 3.5
    proxy.heal()
    far.load(MANY)
    assert text(far, "all") == [1]


def test_a_server_killed_in_mid_run_keeps_what_it_said_was_committed(mortal: Server) -> None:
    store = PostgresStore(mortal.database())
    assert store.try_lead()
    store.begin("life")
    said: list[int] = []
    killer = threading.Thread(target=lambda: _when(lambda: len(said) >= 40, mortal.kill))
    killer.start()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        for job in range(1, 100_000):
            store.commit(keyed(job))
            said.append(job)
    killer.join()
    with pytest.raises(StoreUnavailable, match=r"does not answer .*check that the server runs"):
        store.load(MANY)
    mortal.start()
    loaded = store.load(MANY)
    found = [job.id for job in loaded.jobs]
    assert found in (said, [*said, len(said) + 1])
    assert (store.number, loaded.incarnations) == (len(found), {"life": 0})
    assert [store.submission(f"k{job}") is not None for job in (len(found), len(found) + 1)] == [True, False]
    ended(store, 1)
    store.close()


def test_what_was_not_committed_is_gone_after_a_kill(mortal: Server) -> None:
    url = mortal.database()
    store = PostgresStore(url)
    assert store.try_lead()
    store.commit(keyed(1))
    proxy = Proxy(mortal.socket)
    far = PostgresStore(proxy.url(url), answer_s=0.5)
    store.close()
    assert far.try_lead()
    far.load(MANY)
    proxy.freeze(after=20)
    with pytest.raises(StoreUnavailable, match="no answer"):
        far.commit(keyed(2))
    mortal.kill()
    mortal.start()
    proxy.heal()
    assert [job.id for job in far.load(MANY).jobs] == [1]
    assert far.submission("k2") is None
    far.commit(keyed(2))
    far.close()
    proxy.close()


def test_a_killed_broker_loses_nothing_it_said_was_committed(database: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", _BROKER, database], stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    said = [int(child.stdout.readline()) for _ in range(30)]
    child.kill()
    said += [int(line) for line in child.stdout.read().splitlines()]
    child.wait()
    child.stdout.close()
    store = PostgresStore(database)
    assert not store.try_lead(), "it has just beaten"
    shared().sql("update leader set beat = clock_timestamp() - interval '5 seconds'", database)
    deadline = time.monotonic() + RESTART_S
    while not store.try_lead():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found = [job.id for job in store.load(MANY).jobs]
    assert found in (said, [*said, len(said) + 1]) and store.number == len(found)
    store.close()


_BROKER = """
import sys
sys.path[:0] = ["src", "."]
from tests.store.test_postgres_faults import keyed
from grassq.store.postgres import PostgresStore
store = PostgresStore(sys.argv[1])
assert store.try_lead()
for job in range(1, 100_000):
    store.commit(keyed(job))
    sys.stdout.write(f"{job}\\n")
    sys.stdout.flush()
"""


def _when(ready: object, act: object) -> None:
    assert callable(ready) and callable(act)
    deadline = time.monotonic() + RESTART_S
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.001)
    act()
