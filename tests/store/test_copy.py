"""Moving a store: everything arrives, or nothing does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.builders import a_job, a_placement, a_worker
from tests.postgres import shared
from tests.store.batches import MANY, ended, new, text
from tests.store.test_conformance_broker import a_token

from grassq.core.model import State
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Attempt, Changes, Prediction, Story, Submission, WorkerRecord
from grassq.store.copy import copy
from grassq.store.open import open_store
from grassq.store.relational import ROWS_AT_ONCE, Store
from grassq.store.rows import Part

Opened = Callable[[str], Store]
LINES = ROWS_AT_ONCE * 2 + 1


def a_new_one(kind: str, folder: Path, name: str) -> str:
    """The name of a store that was never used."""
    return shared().database() if kind == "postgres" else f"sqlite:{folder / name}"


def used(url: str) -> None:
    """A store with something in every table."""
    store = open_store(url)
    assert store.try_lead()
    store.begin("first")
    changes = new(a_job(1), a_job(2), replace(a_job(3, state=State.RUNNING, attempt=1), name="é\U0001f33f"))
    changes.attempts[3, 1] = Attempt(job=3, number=1, placement=a_placement("w", {"gpu": {"0": 500_000}}), pid=7)
    changes.story = [Story(1, at / 3, "kind", f"line {at}") for at in range(LINES)]
    changes.submissions = {"k": Submission("k", b"\x00\xff", 1, 3, 1e9 + 0.1, (1, 2))}
    changes.workers = {"w": a_worker("w", gpu=2)}
    changes.worker_records = {"w": WorkerRecord(True, "a", "b")}
    changes.tokens = {"t": replace(a_token("t"), queues=("q",)), "u": a_token("u")}
    changes.paused, changes.unreconciled = {"": "owner", "q": "ann"}, {"w"}
    changes.predicted = [Prediction(job=1, kind="end", made=1.5, low=2.0, likely=3.0, high=4.0, basis="é")]
    store.commit(changes)
    ended(store, 2)
    store.commit(Changes(removed=[2]))
    store.begin("second")
    store.close()


def dumped(url: str) -> list[Part]:
    """All that is in a store."""
    store = open_store(url)
    assert store.try_lead()
    parts = list(store.dump())
    store.close()
    return parts


KINDS = [("file", "postgres"), ("postgres", "file"), ("file", "file"), ("postgres", "postgres")]


@pytest.mark.parametrize(("source", "target"), KINDS)
def test_a_copied_store_is_the_same_store(source: str, target: str, tmp_path: Path, opened: Opened) -> None:
    old, fresh = a_new_one(source, tmp_path, "old.db"), a_new_one(target, tmp_path, "new.db")
    used(old)
    seen: list[tuple[int, int]] = []
    assert copy(old, fresh, lambda done, of: seen.append((done, of))) == 2
    whole = dumped(old)
    assert dumped(fresh) == whole
    total = sum(len(rows) for _, rows in whole)
    assert seen == sorted(seen) and len(seen) > 10 and seen[-1] == (total, total)
    before, after = opened(old), opened(fresh)
    assert before.load(MANY) == after.load(MANY) and before.number == after.number == 3
    assert list(after.load(MANY).incarnations.items()) == [("first", 0), ("second", 3)]
    assert after.tokens() == before.tokens() and after.story(1) == before.story(1) and len(after.story(1)) == LINES + 1
    after.commit(Changes(story=[Story(1, 0.0, "and on")]))
    after.begin("third")
    assert after.story(1)[-1].kind == "and on" and list(after.load(MANY).incarnations)[-1] == "third"


@pytest.mark.parametrize("target", ["file", "postgres"])
def test_a_store_that_has_or_had_jobs_is_not_written_over(target: str, tmp_path: Path, opened: Opened) -> None:
    old, other = a_new_one("file", tmp_path, "old.db"), a_new_one(target, tmp_path, "other.db")
    used(old)
    store = opened(other)
    store.commit(new(a_job(5)))
    store.close()
    with pytest.raises(Refused, match="has jobs already; name a store that was never used"):
        copy(old, other, lambda done, of: None)
    store = opened(other)
    assert text(store, "all") == [5]
    ended(store, 5)
    store.commit(Changes(removed=[5]))
    store.close()
    with pytest.raises(Refused, match="has jobs already"):
        copy(old, other, lambda done, of: None)


@pytest.mark.parametrize("target", ["file", "postgres"])
def test_a_copy_that_breaks_off_leaves_nothing(target: str, tmp_path: Path) -> None:
    old, fresh = a_new_one("file", tmp_path, "old.db"), a_new_one(target, tmp_path, "new.db")
    used(old)
    empty = dumped(fresh)

    class BrokenOff(Exception):
        """Somebody pressed Ctrl-C."""

    def break_off(done: int, total: int) -> None:
        if done > ROWS_AT_ONCE:
            raise BrokenOff

    with pytest.raises(BrokenOff):
        copy(old, fresh, break_off)
    assert dumped(fresh) == empty
    copy(old, fresh, lambda done, of: None)
    assert dumped(fresh) == dumped(old)


def test_a_store_that_a_broker_leads_is_neither_read_nor_written(tmp_path: Path, opened: Opened, database: str) -> None:
    lite = f"sqlite:{tmp_path / 'old.db'}"
    used(lite)
    broker = opened(database)
    for source, target in ((database, f"sqlite:{tmp_path / 'new.db'}"), (lite, database)):
        with pytest.raises(Refused, match=r"a broker uses postgresql://.*; stop it first"):
            copy(source, target, lambda done, of: None)
    broker.beat()
    broker.close()
    copy(lite, database, lambda done, of: None)
    assert opened(database).number == 3


def test_what_cannot_be_copied_is_said(tmp_path: Path) -> None:
    missing = f"sqlite:{tmp_path / 'none.db'}"
    with pytest.raises(NotFound, match=r"there is no store in .*none\.db"):
        copy(missing, f"sqlite:{tmp_path / 'new.db'}", lambda done, of: None)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match="both are the same store"):
        copy(missing, missing, lambda done, of: None)
    for source, target in (("memory", missing), (missing, "memory")):
        with pytest.raises(BadInput, match="a store in memory is gone with its daemon"):
            copy(source, target, lambda done, of: None)
