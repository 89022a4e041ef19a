"""What commands mean by a selection, and what they say about it: kill, release, rerun, why."""

from __future__ import annotations

from tests.e2e.world import Grass


def test_kill_all_may_be_spelled_as_an_option(grass: Grass) -> None:
    grass.ok("pause")
    for _ in range(2):
        grass.enqueue("true")
    assert grass.ok("kill", "--all") == "job 1: cancelled\njob 2: cancelled\n"
    assert "grass kill all" in grass.refuses(2, "kill")
    assert "did you mean 'queued'" in grass.refuses(3, "kill", "queed")


def test_a_release_of_a_job_that_is_not_held_claims_nothing(grass: Grass) -> None:
    id_ = grass.enqueue("true")
    grass.until(id_, "succeeded")
    assert grass("release", str(id_)) == (0, "", f"grass: job {id_} is not held (succeeded)\n")


def test_why_says_that_a_job_was_cancelled_before_it_started(grass: Grass) -> None:
    grass.ok("pause")
    id_ = grass.enqueue("true")
    grass.ok("kill", str(id_))
    text = grass.ok("why", str(id_))
    assert f"job {id_} (cpu 1, queue default) was cancelled before it started" in text
    assert "grass rerun" in text and "grass log" not in text


def test_rerun_of_all_of_history_is_refused(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--cpu=2")
    grass.ended(grass.enqueue("q", "true"), grass.enqueue("false"))
    for word in ("all", "q", "queue:q"):
        assert "--failed" in grass.refuses(2, "rerun", word)
    assert grass.ok("rerun", "failed,cancelled") == "job 3 is a rerun of job 2\n"
