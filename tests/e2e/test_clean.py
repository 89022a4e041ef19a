"""`clean` removes what it says, and nothing by accident."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable

import pytest
from tests.e2e.small_disk import mounted, needs_root
from tests.e2e.world import DEADLINE_S, Grass, eventually


@pytest.fixture
def history(grass: Grass) -> Grass:
    """Two jobs that succeeded, and one that failed."""
    for word in ("true", "true", "false"):
        grass.ended(grass.enqueue(word))
    return grass


def folders(grass: Grass) -> set[str]:
    return {path.name for path in (grass.home / "jobs").iterdir()}


def test_bare_clean_without_a_terminal_removes_nothing_and_says_how(history: Grass) -> None:
    done = history("clean")
    assert done.code == 2
    assert done.out.startswith("3 jobs: 1 failed, 2 succeeded; ended ") and "logs, results and checkpoints" in done.out
    assert done.err.count("\n") == 1 and "grass clean --yes" in done.err and "--older 7d" in done.err
    assert history.json_of(2, "clean")["ids"] == [1, 2, 3]
    assert len(history.jobs()) == 3 and folders(history) == {"1", "2", "3"}


def test_a_dry_run_removes_nothing(history: Grass) -> None:
    assert history.ok("clean", "--dry-run").startswith("3 jobs: ")
    assert history.ok("clean", "--dry-run", "failed").startswith("1 job: 1 failed; ended ")
    assert history.ok("clean", "--dry-run", "--older", "7d") == "no job to remove\n"
    would = history.json("clean", "--dry-run", "succeeded")
    assert (would["count"], would["states"], would["ids"]) == (2, {"succeeded": 2}, [1, 2])
    assert would["bytes"] > 0 and would["oldest"] < would["newest"]
    assert len(history.jobs()) == 3


@pytest.mark.parametrize(
    ("words", "left"), [(("1-2",), {"3"}), (("failed",), {"1", "2"}), (("--all",), set()), (("--yes",), set())]
)
def test_clean_acts_when_it_is_told_what_to_remove(history: Grass, words: tuple[str, ...], left: set[str]) -> None:
    assert history.ok("clean", *words) == f"removed {3 - len(left)} {'job' if len(left) == 2 else 'jobs'}\n"
    assert {str(job["id"]) for job in history.jobs()} == folders(history) == left


def test_on_a_terminal_clean_asks_and_removes_what_it_showed(history: Grass) -> None:
    assert answered(history, "n") == (1, "nothing was removed")
    assert len(history.jobs()) == 3
    # A job that ends after the question stays.
    assert answered(history, "y", meanwhile=lambda: history.run("true")) == (0, "removed 3 jobs")
    assert [job["id"] for job in history.jobs()] == [4] and folders(history) == {"4"}


def answered(grass: Grass, word: str, meanwhile: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Type `grass clean` on a terminal, answer its question, and return the exit code and the last line."""
    near, far = pty.openpty()
    process = grass.start("clean", stdin=far, stdout=far, stderr=far)
    text = b""
    while b"[y/N] " not in text:
        text += os.read(near, 1000)
    assert text.startswith(b"3 jobs: 1 failed, 2 succeeded")
    meanwhile()
    os.write(near, word.encode() + b"\n")
    code = process.wait(DEADLINE_S)
    text += os.read(near, 1000)
    os.close(near)
    os.close(far)
    return code, text.decode().splitlines()[-1].removeprefix("grass: ")


@needs_root
@pytest.mark.parametrize("restart", [False, True])
def test_files_that_cannot_be_removed_now_are_named_and_removed_later(history: Grass, restart: bool) -> None:
    with mounted(history.home / "jobs" / "1" / "1" / "files" / "mounted", "size=1m"):
        done = history("clean", "1-2")
        assert (done.code, done.out) == (0, "removed 2 jobs\n")
        assert "the files of 1 job" in done.err and "are still there" in done.err and "job 1: " in done.err
        assert folders(history) == {"1", "3"}
        assert [job["id"] for job in history.jobs()] == [3]
        if restart:
            history.crash()
    if restart:
        history.ok("start")
    eventually(lambda: folders(history) == {"3"}, "the folder is removed")
    with history.client() as client:
        assert client.info()["strays"] == []


def test_a_checkpoint_that_a_rerun_uses_goes_with_the_last_rerun(grass: Grass) -> None:
    grass.ended(grass.enqueue("--", "sh", "-c", "touch $GRASS_CHECKPOINT_DIR/x; exit 1"))
    grass.ok("rerun", "1")
    grass.ended(2)
    grass.ok("clean", "1")
    assert (grass.home / "jobs" / "1" / "checkpoint" / "x").exists()
    grass.ok("clean", "2")
    assert folders(grass) == set()


def test_a_dry_run_tells_what_the_keep_settings_remove(grass: Grass) -> None:
    grass.env |= {"GRASS_KEEP": "30d", "GRASS_KEEP_JOBS": "1"}
    for _ in range(2):
        grass.run("true")
    # Both have ended less than a minute ago, and stay that long.
    said = grass.ok("clean", "--dry-run").splitlines()[-1]
    assert said == "by itself the daemon removes 0 jobs now: 0 jobs by keep = 30d, 0 jobs by keep_jobs = 1"
    keep = grass.json("clean", "--dry-run")["keep"]
    assert keep["by"]["keep_jobs"] == {"set": "1", "count": 0, "bytes": 0}


def test_keep_settings_that_make_no_sense_are_named_when_the_daemon_starts(grass: Grass) -> None:
    for name, value in (("GRASS_KEEP", "soon"), ("GRASS_KEEP_DISK", "lots"), ("GRASS_KEEP_JOBS", "-1")):
        done = grass("enqueue", "true", env={name: value})
        assert done.code == 2 and done.err.count("\n") == 1 and "keep" in done.err, done


def test_jobs_leave_all_lists_and_their_logs_stay(grass: Grass) -> None:
    """F74: lists are cleared with logs kept: nothing calls the folders strays, also not the next daemon."""
    first = grass.enqueue("--project", "p", "--name", "lr", "--", "sh", "-c", "echo one; echo two > $GRASS_RUN_DIR/x")
    second = grass.enqueue("--", "echo", "gone")
    grass.ended(first, second)
    again = int(grass.ok("rerun", "-q", str(first)))
    grass.ended(again)
    kept = grass.home / "kept"
    done = grass.ok("clean", "--keep-logs", str(first), str(again))
    assert done == f"removed 2 jobs; their logs are kept in {kept}/ID\n"
    assert [job["id"] for job in grass.jobs()] == [second]
    assert (kept / str(first) / "1/log").read_text() == "one\n" == (kept / str(again) / "1/log").read_text()
    assert (kept / str(first) / "1/files/x").read_text() == "two\n"
    assert (grass.home / f"projects/p/lr/{first}/1/log").read_text() == "one\n", "the folder view follows"
    assert not (grass.home / f"jobs/{first}").exists()
    grass.ok("restart")
    checks = grass.json("doctor")
    assert checks["strays"] == [] and "no list" not in grass("show").err
    assert [job["id"] for job in grass.jobs()] == [second]
    assert grass.ok("clean", "all", "--json").count('"kept": null') == 1
    assert sorted(path.name for path in kept.iterdir()) == [str(first), str(again)]
    third = grass.enqueue("true")
    assert third > again, "an id is never given twice"
    grass.ended(third)
    said = grass.ok("clean", "--keep-logs", str(third))
    assert said == f"removed 1 job; its log is kept in {kept}/{third}\n"
