"""How a home was served is how it is served again, when a command starts the daemon by itself."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.world import DEADLINE_S, Grass, end, eventually, free_port


def test_a_broker_that_was_killed_is_started_by_the_next_command_as_it_was(grass: Grass) -> None:
    where = f"127.0.0.1:{free_port()}"
    daemon = grass.start("daemon", "--bind", where, "--no-worker")
    eventually(lambda: (grass.home / "mode.json").exists(), "it serves")
    end(daemon.pid)
    daemon.wait(DEADLINE_S)
    shown = grass.json("show")
    assert shown["workers"] == [] and shown["queues"] == []
    with grass.client() as client:
        assert client.info()["bind"] == where
    said = (grass.home / "daemon.log").read_text()
    assert f"broker at {where}" in said
    assert "grass1." not in said, "a code is not for a file that stays"


def test_a_plain_daemon_typed_by_hand_is_plain_from_then_on(grass: Grass) -> None:
    first = grass.start("daemon", "--bind", f"127.0.0.1:{free_port()}", "--label", "big")
    eventually(lambda: (grass.home / "mode.json").exists(), "it serves")
    assert json.loads((grass.home / "mode.json").read_text())["labels"] == ["big"]
    assert (grass.home / "mode.json").stat().st_mode & 0o777 == 0o600
    grass.ok("stop")
    first.wait(DEADLINE_S)
    second = grass.start("daemon")
    eventually(lambda: not (grass.home / "mode.json").exists(), "forgotten")
    grass.ok("stop")
    second.wait(DEADLINE_S)
    assert grass.json("show")["workers"][0]["labels"] == []


def test_commands_of_a_home_that_is_only_a_worker_go_to_its_broker_with_the_users_login(
    grass: Grass, tmp_path: Path
) -> None:
    where = f"127.0.0.1:{free_port()}"
    broker = grass.start("daemon", "--bind", where, "--no-worker")
    eventually(lambda: (grass.home / "mode.json").exists(), "the broker serves")
    node = Grass(tmp_path / "node", grass.cwd)
    node.ok("join", grass.json("token", "create", "--scope", "worker")["code"], "--name", "node")
    worker = node.start("daemon", "--no-broker", "--connect", where)
    eventually(lambda: (node.home / "mode.json").exists(), "the worker serves")
    assert "grass login" in node.refuses(5, "show"), "the worker's own token gives no right to look"
    node.ok("login", grass.json("token", "create", "--name", "ann")["code"])
    assert node.ok("use") == f"commands go to {where} (this machine is a worker of it)\n"
    assert node.ok("create-queue", "q", "echo") == "queue q created\n"
    eventually(lambda: "q" in [queue["name"] for queue in node.json("show")["queues"]], "the broker knows the queue")
    assert node.ok("enqueue", "-q", "q", "hello") == "1\n"
    assert node.ok("follow", "1") == "hello\n"
    node.ok("stop")
    worker.wait(DEADLINE_S)
    assert [job["id"] for job in node.json("show", "all")["jobs"]] == [1], "the broker answers without the worker"
    alone = node.start("daemon")
    eventually(lambda: not (node.home / "joined").exists(), "it serves a queue of its own")
    assert node.json("show", "all")["jobs"] == []
    for each, daemon in ((node, alone), (grass, broker)):
        each.ok("stop")
        daemon.wait(DEADLINE_S)


def test_a_start_that_failed_is_not_repeated(grass: Grass) -> None:
    assert "port" in grass.refuses(2, "daemon", "--bind", "127.0.0.1:99999")
    assert "certificate" in grass.refuses(2, "daemon", "--bind", "127.0.0.1:7500", "--cert", "none.p12")
    assert grass.run("echo", "fine") == "fine\n"


def test_words_that_make_no_sense_together_are_refused(grass: Grass) -> None:
    for words in (
        ("--bind", "0.0.0.0:7500", "--no-broker"),
        ("--no-broker", "--no-worker"),
        ("--connect", "somewhere:7500"),
        ("--no-broker",),
        ("--no-worker",),
        ("--cert", "a.pem"),
    ):
        grass.refuses(2, "daemon", *words)


def test_a_broker_named_behind_the_queue_is_refused_and_never_passed_over(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--cpu=1")
    for words in (("q", "--broker", "somewhere:7500", "--", "true"), ("q", "--broker=local", "--cpu=1", "true")):
        assert "--broker comes first" in grass.refuses(2, "enqueue", *words)
    grass.nothing_was_stored()
