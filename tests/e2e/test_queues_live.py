"""Queues: prefixes, queues to come, deleting, pausing, priorities and whose words are whose."""

from __future__ import annotations

from tests.e2e.world import Grass

ARGUMENTS = '#!/bin/sh\nfor word; do printf "<%s>" "$word"; done\n'


def test_a_prefix_comes_before_the_jobs_words(grass: Grass) -> None:
    """F6, F10, T3: an option the queue does not know is the job's."""
    tool = grass.write("tool", ARGUMENTS, 0o755)
    grass.ok("create-queue", "--capacity", "{gpu:4}", "cifar100", str(tool), "first")
    assert grass.run("cifar100", "--lr=0.01") == "<first><--lr=0.01>"
    assert grass.run("cifar100", "--gpu=1", "--lr=0.01", "--gpu=2") == "<first><--lr=0.01><--gpu=2>"
    assert grass.run("cifar100", "--", "--gpu=2") == "<first><--gpu=2>"


def test_a_forced_queue_leaves_every_word_to_the_job(grass: Grass) -> None:
    """T2: --queue always wins, also over a queue of the first word's name."""
    grass.ok("create-queue", "echo", "--cpu=1")
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.enqueue("--queue", "q", "--gpu=1", "echo", "--gpu=2", "--", "x")
    assert grass.until(id_, "succeeded")["queue"] == "q"
    assert grass.log(id_) == "--gpu=2 -- x\n"
    assert grass.run("echo", "pwd").strip() == str(grass.cwd), "without it the queue wins over the program"


def test_a_large_sum_is_one_pool(grass: Grass) -> None:
    """T19: {mem: 12000} is no 12000 devices, and sizes have units."""
    grass.ok("create-queue", "q", "--capacity", "{mem: 12000, tokens: {pool: 3}}")
    id_ = grass.gated("go", "--require", "{mem: '2G', tokens: 2}", "q")
    assert grass.until(id_, "running")["allocation"] == {"mem": 2048.0, "tokens": 2.0}
    assert grass.queue("q")["free"] == {"mem": 12000.0 - 2048.0, "tokens": 1.0}
    blocked = grass.enqueue("--require", "{tokens: 2}", "q", "true")
    assert "tokens" in grass.ok("why", str(blocked))
    grass.open_gate("go")
    grass.until(blocked, "succeeded")


def test_a_queue_command_runs_where_the_queue_was_made(grass: Grass) -> None:
    """T20: --cwd of the job, else where the queue was made, else where the job was submitted."""
    place, other = grass.cwd / "place", grass.cwd / "other"
    place.mkdir()
    other.mkdir()
    grass.ok("create-queue", "here", "pwd", cwd=place)
    grass.ok("create-queue", "bare", "--cpu=1", cwd=place)
    assert grass.run("here", cwd=other).strip() == str(place)
    assert grass.run("bare", "pwd", cwd=other).strip() == str(other)
    assert grass.run("--cwd", "..", "here", cwd=other).strip() == str(grass.cwd)


def test_options_after_the_queue_are_ours_until_the_separator(grass: Grass) -> None:
    """F9, F20."""
    grass.ok("create-queue", "exp1", "--cpu=8", "--gpu=2")
    assert grass.run("exp1", "--gpu=1", f"--cwd={grass.home.parent}", "--", "pwd").strip() == str(grass.home.parent)


def test_a_job_waits_for_a_queue_that_comes_later(grass: Grass) -> None:
    """F12."""
    done = grass("enqueue", "--require", "{gpu:0.5}", "--env", "X={gpu}", "job2", "echo", "hi")
    assert done.code == 0 and "job2" in done.err
    waiting = grass.job(1)
    assert waiting["state"] == "waiting" and "create-queue job2" in waiting["reason"]
    assert "create-queue job2" in grass.ok("why", "1")
    grass.ok("create-queue", "job2", "--gpu=1")
    grass.until(1, "succeeded")
    assert grass.log(1) == "hi\n"


def test_env_and_leading_words_are_filled_in(grass: Grass) -> None:
    """F13, F14: the last one wins, as in a shell."""
    grass.ok("create-queue", "q", "--gpu=[5]")
    shown = grass.run("--gpu=1", "--env", "A=gpu{gpu}", "-e", "B=1", "q", "B=2", "sh", "-c", "echo $A $B")
    assert shown == "gpu5 2\n"


def test_braces_that_are_none_of_ours_survive(grass: Grass) -> None:
    """F16, T12."""
    grass.ok("create-queue", "q", "--gpu=1")
    tool = grass.write("tool", ARGUMENTS, 0o755)
    words = ('{"a":1}', "{}", "{nope}", "${HOME}", "{{gpu}}", "{gpu}", "{job.id}")
    assert grass.run("--gpu=1", "q", str(tool), *words) == '<{"a":1}><{}><{nope}><${HOME}><{gpu}><0><1>'


def test_a_placeholder_for_what_was_not_asked_is_refused(grass: Grass) -> None:
    """T12."""
    grass.ok("create-queue", "q", "--gpu=1")
    assert "--gpu=1" in grass.refuses(2, "enqueue", "q", "echo", "{gpu}")
    grass.nothing_was_stored()


def test_deleting_a_queue_lets_its_running_job_finish(grass: Grass) -> None:
    """F39."""
    grass.ok("create-queue", "q", "--gpu=1")
    running = grass.gated("go", "q", "--gpu=1")
    grass.until(running, "running")
    queued = grass.gated("go", "q", "--gpu=1")
    grass.ok("delete-queue", "q")
    assert grass.job(running)["state"] == "running"
    assert grass.until(queued, "waiting")["reason"].startswith("no queue")
    grass.open_gate("go")
    grass.until(running, "succeeded")
    assert grass.job(queued)["state"] == "waiting"
    assert "q" in grass.refuses(3, "delete-queue", "q")
    grass.ok("create-queue", "q", "--gpu=1")
    grass.until(queued, "succeeded")


def test_creating_a_queue_again_says_whether_it_changed(grass: Grass) -> None:
    assert "created" in grass.ok("create-queue", "q", "--gpu=1")
    assert "unchanged" in grass.ok("create-queue", "q", "--gpu=1")
    assert grass.json("create-queue", "q", "--gpu=2")["status"] == "replaced"
    assert set(grass.queue("q")["limits"]["gpu"]) == {"0", "1"}


def test_a_paused_queue_finishes_what_runs_and_starts_nothing(grass: Grass) -> None:
    """F68: one queue; the others go on; a restart does not resume it."""
    grass.ok("create-queue", "q", "--gpu=1")
    running = grass.gated("go", "q", "--gpu=1")
    grass.until(running, "running")
    grass.ok("pause", "q")
    queued = grass.enqueue("q", "--gpu=1", "--", "true")
    grass.open_gate("go")
    grass.until(running, "succeeded")
    grass.ok("restart")
    assert grass.run("echo", "default goes on") == "default goes on\n"
    assert grass.job(queued)["state"] == "queued"
    assert "paused" in grass.ok("why", str(queued)) and grass.queue("q")["paused"]
    grass.ok("resume", "q")
    grass.until(queued, "succeeded")


def test_everything_can_be_paused(grass: Grass) -> None:
    """F68."""
    grass.ok("pause")
    grass.ok("create-queue", "q", "--cpu=1")
    ids = [grass.enqueue("true"), grass.enqueue("q", "true")]
    assert grass.states() == ["queued", "queued"]
    assert "everything is paused" in grass.ok("why", str(ids[0]))
    grass.ok("resume")
    assert {job["state"] for job in grass.ended(*ids)} == {"succeeded"}


def test_pausing_a_job_names_suspend(grass: Grass) -> None:
    id_ = grass.gated("go")
    assert "suspend" in grass.refuses(2, "pause", str(id_))
    grass.open_gate("go")


def test_order_is_priority_then_submission(grass: Grass) -> None:
    """F71, F48, T34: equal ones in order; one at 40 overtakes; changing a running one warns."""
    grass.ok("create-queue", "q", "--gpu=1")
    first = grass.gated("go", "q", "--gpu=1")
    grass.until(first, "running")
    ids = [grass.enqueue("q", "--gpu=1", "--", "true") for _ in range(4)]
    urgent = grass.enqueue("q", "--gpu=1", "--priority", "40", "--", "true")
    grass.ok("priority", str(ids[3]), "35")
    warned = grass("priority", str(first), "50")
    assert warned.code == 0 and "runs already" in warned.err
    assert {job["priority"] for job in grass.jobs("2-4")} == {30}
    grass.open_gate("go")
    ended = grass.ended(urgent, ids[3], *ids[:3])
    starts = [job["started"] for job in ended]
    assert starts == sorted(starts), [(job["id"], job["started"]) for job in ended]


def test_a_small_job_may_pass_a_blocked_one(grass: Grass) -> None:
    """T16."""
    grass.ok("create-queue", "q", "--gpu=2")
    running = grass.gated("go", "q", "--gpu=1")
    large = grass.gated("go", "q", "--gpu=2")
    grass.until(running, "running")
    assert grass.run("q", "--gpu=1", "--", "echo", "passed") == "passed\n"
    assert grass.job(large)["state"] == "queued"
    grass.open_gate("go")
    grass.until(large, "succeeded")


def test_a_job_without_words_waits_while_its_queue_has_no_command(grass: Grass) -> None:
    grass.ok("create-queue", "z", "echo")
    first, second = grass.enqueue("--hold", "z"), grass.enqueue("--hold", "z", "--", "true")
    with grass.client() as client:
        many = client.submit_many([[], ["true"]], {"queue": "z", "hold": True})["first"]
    grass.ok("create-queue", "z", "--cpu=1")
    grass.ok("release", "all")
    assert grass.until(second, "succeeded") and grass.until(many + 1, "succeeded")
    for id_ in (first, many):
        assert "queue 'z' has no command, and the job has no words" in grass.until(id_, "waiting")["reason"]
    assert grass("enqueue", "z").code == 2, "nothing to run"
    grass.ok("create-queue", "z", "echo")
    assert grass.until(first, "succeeded") and grass.log(first) == "\n"
