"""The store is gone, empty, older or another, but the run dirs of its jobs are there: said by every command."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.world import Grass, eventually, is_alive

WARNING = "in no list"


def store_files(home: Path) -> list[Path]:
    return sorted(home.glob("store.db*"))


def removed(grass: Grass) -> None:
    for path in store_files(grass.home):
        path.unlink()


def removed_but_for_its_mark(grass: Grass) -> None:
    for path in store_files(grass.home):
        if path.suffix != ".mark":
            path.unlink()


def emptied(grass: Grass) -> None:
    removed(grass)
    (grass.home / "store.db").touch()


def moved_without_its_log(grass: Grass) -> None:
    (grass.home / "store.db").rename(grass.cwd / "store.db")
    (grass.home / "store.db-shm").unlink(missing_ok=True)


def replaced_by_a_new_one(grass: Grass) -> None:
    other = Grass(grass.home.parent / "other", grass.cwd)
    other.ok("start")
    other.ok("stop")
    removed(grass)
    shutil.copy(other.home / "store.db", grass.home / "store.db")
    other.close()


LOSSES = [removed, removed_but_for_its_mark, emptied, moved_without_its_log, replaced_by_a_new_one]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_store_is_said_by_every_command_until_somebody_answers(
    grass: Grass, lose: Callable[[Grass], None]
) -> None:
    grass.ended(grass.enqueue("true"), grass.enqueue("--gpu=0", "--name", "second", "--", "sh", "-c", "exit 3"))
    grass.crash()
    lose(grass)
    for words in (("show",), ("enqueue", "true"), ("wait", "all"), ("pause",), ("resume",)):
        done = grass(*words)
        assert done.code == 0 and WARNING in done.err and "grass doctor" in done.err, (words, done)
    assert WARNING in (grass.home / "daemon.log").read_text()
    (job,) = grass.jobs()
    assert job["id"] > 2, "no id is given twice"
    grass.ok("restart")
    assert WARNING in grass("show").err, "it is said after a restart"
    grass.ok("resume", "--restored")
    assert grass("show").err == ""
    grass.ok("restart")
    assert grass("show").err == "", "an answer is kept"
    assert grass.run("echo", "on") == "on\n"


def test_doctor_names_what_can_be_brought_back(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=2", "--", "env")
    grass.ended(
        grass.enqueue("--name", "second", "--", "sh", "-c", "exit 3"),
        grass.enqueue("q", "--gpu=0.5", "--env", "TOKEN=hunter2", "echo", "a b", env={"PASSWORD": "hunter2"}),
    )
    grass.crash()
    removed(grass)
    done = grass("doctor")
    assert done.code == 1 and "store.db is gone or empty, but" in done.out and not store_files(grass.home)
    grass.ok("start")
    done = grass("doctor")
    assert done.code == 1 and "2 jobs have folders" in done.out
    assert "jobs/1/1" in done.out and "exit 3" in done.out and str(grass.home / "jobs" / "1" / "1" / "log") in done.out
    assert "hunter2" not in done.out + grass("doctor", "--json").out, "no value of an environment is printed"
    with grass.client() as client:
        second, first = client.info()["strays"]
    assert (first["command"], first["cwd"], first["state"], first["exit_code"]) == (
        "sh -c 'exit 3'", str(grass.cwd), "ended", 3,
    )  # fmt: skip
    assert first["again"] == f"cd {grass.cwd} && grass enqueue default --cpu=1 --name=second -- sh -c 'exit 3'"
    assert second["again"] == f"cd {grass.cwd} && grass enqueue q --gpu=0.5 -- echo 'a b'"
    grass.ok("resume", "--restored")
    for stray in (first, second):
        assert grass.bash(stray["again"]).code == 0
    assert [job["state"] for job in grass.ended(3, 4)] == ["failed", "succeeded"]
    assert grass.job(4)["request"] == {"gpu": 0.5}


def test_a_running_job_of_a_lost_store_is_never_touched_and_its_devices_are_not_given_away(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    pid = grass.until(grass.gated("go", "q", "--gpu=1"), "running")["pid"]
    grass.crash()
    removed(grass)
    late = grass.enqueue("q", "--gpu=1", "true")
    assert "job 1" in grass.ok("why", str(late)) and grass.job(late)["state"] == "queued"
    grass.ok("restart")
    assert "job 1" in grass.ok("why", str(late)) and grass.job(late)["state"] == "queued"
    grass.ok("kill", "all")
    late = grass.enqueue("q", "--gpu=1", "true")
    with grass.client() as client:
        (stray,) = client.info()["strays"]
    assert (stray["state"], stray["pid"]) == ("running", pid)
    assert is_alive(pid)
    grass.open_gate("go")
    eventually(lambda: not is_alive(pid), "it ends")
    grass.until(late, "succeeded")
    grass.ok("clean", "--yes")
    assert (grass.home / "jobs" / "1" / "1" / "exit").exists(), "nothing of it was deleted"


@pytest.mark.parametrize("lose", [removed, removed_but_for_its_mark])
def test_an_older_copy_of_the_store_is_said(grass: Grass, lose: Callable[[Grass], None]) -> None:
    grass.ended(grass.enqueue("true"))
    grass.ok("stop")
    shutil.copy(grass.home / "store.db", grass.cwd / "backup.db")
    grass.ended(grass.enqueue("true"), grass.enqueue("true"))
    grass.ok("stop")
    lose(grass)
    shutil.copy(grass.cwd / "backup.db", grass.home / "store.db")
    assert "2 jobs are in no list" in grass("show").err
    new = grass.enqueue("true")
    assert new > 3 and [job["id"] for job in grass.ended(1, new)] == [1, new]
    grass.ok("resume", "--restored")
    assert grass("show").err == ""
    grass.ok("restart")
    assert grass("show").err == "" and grass.enqueue("true") > new


def test_the_mark_keeps_the_ids_of_lost_jobs_without_a_folder_and_the_right_store_can_come_back(grass: Grass) -> None:
    grass.ended(grass.enqueue("true"))
    grass.ok("pause")
    waiting = grass.enqueue("true")
    grass.ok("stop")
    shutil.copy(grass.home / "store.db", grass.cwd / "right.db")
    removed_but_for_its_mark(grass)
    new = grass.enqueue("true")
    assert new > waiting, "the lost job has no folder, and its id is not given again"
    grass.ended(new)
    grass.ok("stop")
    removed_but_for_its_mark(grass)
    shutil.copy(grass.cwd / "right.db", grass.home / "store.db")
    assert "1 job is in no list" in grass("show").err
    grass.ok("resume", "--restored")
    grass.ok("resume")
    assert grass.ended(waiting)[0]["state"] == "succeeded"
    assert grass.enqueue("true") > new


def test_a_store_of_another_home_with_the_same_ids_is_refused(grass: Grass) -> None:
    """Its jobs and these run dirs would be taken for each other: logs, signals, removals."""
    other = Grass(grass.home.parent / "other", grass.cwd)
    for each in (grass, other):
        each.ended(each.enqueue("true"))
        each.ok("stop")
    removed(grass)
    shutil.copy(other.home / "store.db", grass.home / "store.db")
    other.close()
    for _ in range(2):
        line = grass.refuses(5, "show")
        assert "another store" in line and str(grass.home / "jobs") in line, "it is refused at each start"


def test_the_log_of_a_database_that_was_moved_away_is_kept(grass: Grass) -> None:
    """SQLite would delete it, and with it the last jobs."""
    grass.ended(grass.enqueue("true"))
    grass.crash()
    moved_without_its_log(grass)
    assert WARNING in grass("show").err
    grass.ok("stop")
    (aside,) = grass.home.glob("store.db-wal.*")
    aside.rename(grass.cwd / "store.db-wal")
    with sqlite3.connect(grass.cwd / "store.db") as back:
        assert back.execute("select id, state from job").fetchall() == [(1, "succeeded")]


def test_a_store_that_vanishes_while_the_daemon_runs_is_said_after_a_restart(grass: Grass) -> None:
    grass.ended(grass.enqueue("true"))
    removed(grass)
    grass("enqueue", "true")
    grass.ok("restart")
    assert WARNING in grass("show").err
