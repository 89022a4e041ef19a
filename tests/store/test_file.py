"""A store in a file: it outlives its process, refuses what it must not touch, and says what is wrong in a sentence."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import a_job
from tests.store.batches import DIGEST, ENV, MANY, ended, new, text

from grassq.core.model import Job
from grassq.errors import StoreUnavailable, UnknownSchema
from grassq.store.base import Changes, Submission
from grassq.store.schema import migrations
from grassq.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]


def _store(path: Path) -> SqliteStore:
    return SqliteStore(str(path))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = _store(path)
    identity = store.load(MANY).store_id
    changes = new(a_job(1), a_job(2))
    changes.submissions = {"k": Submission("k", b"d", 1, 2, 0.0)}
    store.commit(changes)
    ended(store, 2)
    store.close()
    again = _store(path)
    loaded = again.load(MANY)
    assert (loaded.store_id, [job.id for job in loaded.jobs], loaded.highest_id) == (identity, [1], 2)
    assert again.submission("k") is not None and again.environment(DIGEST) == ENV
    again.close()


def test_the_highest_id_survives_clean_and_reopening(tmp_path: Path) -> None:
    store = _store(tmp_path / "store.db")
    store.commit(new(a_job(41)))
    ended(store, 41)
    store.commit(Changes(removed=[41]))
    store.close()
    again = _store(tmp_path / "store.db")
    assert again.load(MANY).highest_id == 41
    again.close()


def test_commits_are_synced_and_logged_ahead(tmp_path: Path) -> None:
    store = _store(tmp_path / "store.db")
    assert store._connection.execute("pragma journal_mode").fetchone()[0] == "wal"
    assert store._connection.execute("pragma synchronous").fetchone()[0] == 2
    store.load(MANY)
    assert store._connection.execute("pragma synchronous").fetchone()[0] == 2
    assert store._connection.execute("pragma foreign_keys").fetchone()[0] == 1
    store.close()


def test_no_commit_has_to_wait_for_the_log_to_grow(tmp_path: Path) -> None:
    store = _store(tmp_path / "store.db")
    store.load(MANY)
    log = tmp_path / "store.db-wal"
    laid_out = log.stat().st_size
    for id_ in range(1, 21):
        store.commit(new(a_job(id_)))
    assert log.stat().st_size == laid_out
    store.close()
    again = _store(tmp_path / "store.db")
    assert len(again.load(MANY).jobs) == 20
    again.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_store_of_a_newer_release_is_refused_and_not_touched(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "store.db"
    _store(path).close()
    raw = sqlite3.connect(path)
    raw.execute(f"pragma journal_mode = {mode}")
    last = migrations()[-1][0]
    raw.execute(f"pragma user_version = {last + 1}")
    raw.close()
    before = _digest(path)
    with pytest.raises(UnknownSchema, match=rf"newer Grass \(schema {last + 1}, this one knows {last}\)"):
        _store(path)
    assert _digest(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.parametrize("damage", ["header", "middle", "cut", "text"])
def test_a_damaged_file_is_said_to_be_damaged_and_never_taken_for_empty(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.db"
    store = _store(path)
    for first in range(1, 400, 40):
        store.commit(new(*[a_job(i) for i in range(first, first + 40)]))
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage == "header":
            file.write(b"\xff" * 512)
        elif damage == "middle":
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        elif damage == "cut":
            file.truncate(size // 2 // 4096 * 4096)
        else:
            file.truncate(0)
            file.write(b"this is no database, and it is longer than a header of a hundred bytes would be " * 9)
    with pytest.raises(StoreUnavailable, match=r"is damaged .*keep it and the jobs folder"):
        _store(path).load(MANY)


def test_a_row_that_makes_no_sense_is_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = _store(path)
    store.commit(new(a_job(1)))
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("update job set spec = x'ff00ff'")
    raw.commit()
    raw.close()
    store = _store(path)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        store.load(MANY)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        text(store, "all")
    store.close()


def test_a_folder_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot be written .*check the owner and mode"):
        _store(tmp_path / "nowhere" / "store.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be refused by a mode")
def test_a_folder_we_may_not_write_is_said_in_a_sentence_as_another_user(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(0o755)
    _store(folder / "store.db").close()
    done = _python(
        f"""
        import os
        os.chdir({str(folder)!r})
        os.setgid(65534); os.setuid(65534)
        try:
            store = SqliteStore("store.db")
            store.load(MANY)
        except StoreUnavailable as error:
            print("said", error)
        """
    )
    assert done.stdout.startswith("said store.db cannot be written"), done


def test_a_full_disk_is_said_in_a_sentence_and_passes(tmp_path: Path) -> None:
    store = _store(tmp_path / "store.db")
    store.commit(new(a_job(1)))
    pages = store._connection.execute("pragma page_count").fetchone()[0]
    store._connection.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match="is full; free some space"):
        store.commit(new(*[a_job(i) for i in range(2, 500)]))
    assert text(store, "all") == [1]
    store.load(MANY)
    store.commit(new(*[a_job(i) for i in range(2, 500)]))
    assert len(text(store, "all", 1000)) == 499
    store.close()


def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    done = _python(
        f"""
        import resource
        store = SqliteStore({str(path)!r})
        store.commit(new(a_job(1)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        written = 1
        try:
            while True:
                store.commit(new(*[a_job(i) for i in range(written + 1, written + 101)]))
                written += 100
        except StoreUnavailable as error:
            print(written, error)
        """
    )
    written, _, sentence = done.stdout.partition(" ")
    assert str(path) in sentence, done
    store = _store(path)
    assert len(text(store, "all", 10**6)) == int(written)
    store.close()


def test_a_killed_process_loses_nothing_it_said_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    program = f"""
        store = SqliteStore({str(path)!r})
        for i in range(1, 100_000):
            store.commit(new(a_job(i)))
            print(i, flush=True)
        """
    for kill_after in (1, 7, 60):
        path.unlink(missing_ok=True)
        for left in tmp_path.glob("store.db-*"):
            left.unlink()
        child = subprocess.Popen([sys.executable, "-c", _program(program)], stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        for _ in range(kill_after):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        said = kill_after + len(child.stdout.read().splitlines())
        child.wait()
        child.stdout.close()
        store = _store(path)
        found = text(store, "all", 10**6)
        # One more may be on disk: killed after the commit and before the word.
        assert found in (list(range(1, said + 1)), list(range(1, said + 2)))
        assert store._connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        store.close()


def test_a_second_opener_sees_only_whole_commits(tmp_path: Path) -> None:
    store, reader = _store(tmp_path / "store.db"), _store(tmp_path / "store.db")
    store._connection.execute("begin immediate")
    jobs: list[Job] = reader.load(MANY).jobs
    assert jobs == []
    store._connection.execute("rollback")
    store.commit(new(a_job(1)))
    assert [job.id for job in reader.load(MANY).jobs] == [1]
    store.close()
    reader.close()


def _program(body: str) -> str:
    lines = [line[8:] for line in body.splitlines()]
    head = """
import sys
sys.path[:0] = ["src", "."]
from tests.builders import a_job
from tests.store.batches import MANY, new
from grassq.errors import StoreUnavailable
from grassq.store.sqlite import SqliteStore
"""
    return head + "\n".join(lines)


def _python(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _program(body)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def _holding(tmp_path: Path, secret: bytes) -> list[str]:
    """The files of the store that hold a text."""
    return [file.name for file in tmp_path.iterdir() if secret in file.read_bytes()]


SECRET = b"TOKEN=" + b"s3cret" * 2000


def _with_a_secret(tmp_path: Path) -> SqliteStore:
    store = _store(tmp_path / "store.db")
    store.commit(new(a_job(1), environments={DIGEST: SECRET}))
    assert _holding(tmp_path, b"s3cret")
    ended(store, 1)
    return store


def test_nothing_of_an_environment_is_in_the_files_after_its_last_job_was_removed(tmp_path: Path) -> None:
    store = _with_a_secret(tmp_path)
    laid_out = (tmp_path / "store.db-wal").stat().st_size
    store.commit(Changes(removed=[1]))
    assert _holding(tmp_path, b"s3cret") == []
    assert (tmp_path / "store.db-wal").stat().st_size == laid_out, "later commits do not wait for the file to grow"
    store.commit(new(a_job(2)))
    store.close()


def test_a_reader_delays_neither_a_clean_nor_for_long_the_erasing(tmp_path: Path) -> None:
    store = _with_a_secret(tmp_path)
    reader = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from job").fetchone()
    store.commit(Changes(removed=[1]))
    reader.execute("rollback")
    reader.close()
    store.commit(new(a_job(2)))
    assert _holding(tmp_path, b"s3cret") == []
    store.close()
