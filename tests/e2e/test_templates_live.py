"""A queue that is defined at the broker, before there is a worker for it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.world import Grass, eventually, free_port


def test_a_job_waits_for_a_worker_that_does_not_exist_yet(grass: Grass, tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    grass.start("daemon", "--bind", where, "--no-worker")
    eventually(lambda: (grass.home / "mode.json").exists(), "it serves")
    assert grass.ok("create-queue", "pilots", "--at-broker", "--label", "big") == "queue pilots created\n"
    assert grass.ok("create-queue", "--at-broker", "pilots", "--label", "big") == "queue pilots unchanged\n"
    assert "goes with --at-broker" in grass.refuses(2, "create-queue", "q", "--label", "big")
    assert "(none yet)" in grass.ok("show")
    job = grass.enqueue("pilots", "--cpu=1", "--", "echo", "here at last")
    assert "no worker offers queue 'pilots'" in grass.job(job)["reason"]
    worker = Grass(tmp_path / "node", grass.cwd)
    try:
        worker.ok("join", str(grass.json("token", "create", "--scope", "worker")["code"]), "--name", "node")
        worker.start("daemon", "--no-broker", "--connect", where, "--label", "big")
        assert grass.until(job, "succeeded")["worker"] == "node"
        assert grass.log(job) == "here at last\n"
        assert "--at-broker" in grass.refuses(3, "delete-queue", "--worker", "node", "pilots")
        assert grass.ok("delete-queue", "--at-broker", "pilots") == "queue pilots deleted\n"
        assert [queue["name"] for queue in grass.json("show")["queues"]] == ["default"]
    finally:
        worker.close()
