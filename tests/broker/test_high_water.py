"""The mark beside a store: no id is given twice, also when the store or its whole folder goes back in time."""

from __future__ import annotations

import itertools
import secrets
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.broker.decider_fixture import DeciderFixture, a_draft
from tests.builders import a_worker

from grassq.broker import service
from grassq.core.messages import Start
from grassq.errors import Refused, StoreUnavailable
from grassq.store.high_water import STEP, HighWater

A, B = a_worker("a", cpu=2), a_worker("b", cpu=2)


class Folder(DeciderFixture):
    """A broker whose store and mark are in one folder."""

    def __init__(self, folder: Path, *, beside_store: bool = True) -> None:
        self.folder = folder
        self.beside_store = beside_store
        super().__init__(path=str(folder / "store.db"))
        # A store that another broker has filled knows the keys of that broker's clients.
        self.keys = (secrets.token_hex(16) for _ in itertools.count())

    def new_mark(self) -> HighWater | None:
        return HighWater(str(self.folder / "store.db.mark"), beside_store=self.beside_store)

    def back_up(self) -> Path:
        """The store as it is now, in another file."""
        target = self.folder / "backup.db"
        with sqlite3.connect(self.store.path) as connection:
            connection.execute("vacuum into ?", (str(target),))
        return target

    def put_back(self, backup: Path) -> None:
        """Put a backup in the place of the store, and start a broker on it."""
        self.decider.close()
        for name in ("store.db", "store.db-wal", "store.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        backup.rename(self.folder / "store.db")
        self.reopen()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    home = tmp_path / "home"
    home.mkdir()
    found = Folder(home)
    found.hello(A)
    found.hello(B)
    return found


def _starts(fixture: DeciderFixture, *workers: str) -> list[int]:
    orders = fixture.process().orders
    return [order.job for worker, order in orders if isinstance(order, Start) and worker in workers]


def test_a_restored_store_gives_ids_above_the_mark_and_starts_nothing_until_all_have_spoken(folder: Folder) -> None:
    folder.submit(*[a_draft()] * 10)
    backup = folder.back_up()
    given = folder.submit(*[a_draft()] * 30)
    folder.put_back(backup)
    (new,) = folder.submit(a_draft())
    assert new > max(given)
    assert folder.decider.board.unreconciled == {"a", "b"}
    folder.hello(A)
    assert _starts(folder, "a", "b") == []
    folder.hello(B)
    assert folder.decider.board.unreconciled == set()


def test_a_restart_and_a_crash_change_neither_ids_nor_starts(folder: Folder) -> None:
    ids = folder.submit(*[a_draft()] * 3)
    folder.restart()
    assert folder.decider.board.unreconciled == set()
    assert folder.submit(a_draft()) == [max(ids) + 1]


def test_the_mark_is_above_every_id_before_the_id_is_given(folder: Folder) -> None:
    backup = folder.back_up()
    given = folder.submit(*[a_draft()] * (STEP + 10))
    folder.put_back(backup)
    assert folder.submit(a_draft())[0] > max(given)


def test_a_mark_that_cannot_be_written_gives_no_id(folder: Folder) -> None:
    folder.decider.close()
    (folder.folder / "store.db.mark").unlink()
    (folder.folder / "store.db.mark").mkdir()
    with pytest.raises(StoreUnavailable, match=r"store\.db\.mark"):
        folder.reopen()


def test_a_copied_folder_takes_no_job_until_every_worker_has_said_which_ids_it_holds(
    folder: Folder, tmp_path: Path
) -> None:
    folder.submit(*[a_draft()] * 10)
    folder.decider.close()
    copy = tmp_path / "copy"
    shutil.copytree(folder.folder, copy)
    restored = Folder(copy)
    with pytest.raises(Refused, match=r"copied or restored.*a, b.*grass resume --restored"):
        restored.submit(a_draft())
    restored.hello(A)
    restored.restart()
    with pytest.raises(Refused, match="copied or restored"):
        restored.submit(a_draft())
    restored.hello(B)
    restored.hello(A)
    assert restored.submit(a_draft())[0] > 10
    restored.restart()
    assert restored.decider.board.unreconciled == set()


def test_the_operator_may_go_on_without_the_workers_of_a_copied_folder(folder: Folder, tmp_path: Path) -> None:
    folder.decider.close()
    shutil.copytree(folder.folder, tmp_path / "copy")
    restored = Folder(tmp_path / "copy")
    assert restored.do(service.accept_restored).notes
    assert restored.submit(a_draft())[0] > STEP
    restored.restart()
    assert restored.decider.board.unreconciled == set()


@pytest.mark.parametrize("damage", ["moved away", "torn"])
def test_a_store_without_the_mark_it_had_counts_as_restored(folder: Folder, damage: str) -> None:
    folder.submit(a_draft())
    folder.decider.close()
    mark = folder.folder / "store.db.mark"
    mark.unlink() if damage == "moved away" else mark.write_bytes(mark.read_bytes()[:20])
    folder.reopen()
    assert folder.decider.board.unreconciled == {"a", "b"}


def test_a_store_of_an_earlier_release_or_a_second_broker_on_it_waits_for_nobody(tmp_path: Path) -> None:
    plain = DeciderFixture(A, path=str(tmp_path / "store.db"))
    ids = plain.submit(a_draft())
    plain.decider.close()
    for beside_store in (True, False):
        (tmp_path / "store.db.mark").unlink(missing_ok=True)
        upgraded = Folder(tmp_path, beside_store=beside_store)
        assert upgraded.decider.board.unreconciled == set()
        ids += upgraded.submit(a_draft())
        upgraded.decider.close()
    assert ids == [1, 2, 3]
