"""A queue in PostgreSQL, and moving one there: F35."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from tests import postgres
from tests.e2e.world import DEADLINE_S, Grass, end, eventually

from grassq.errors import GrassError


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A database server for this file."""
    server = postgres.fresh()
    yield server
    server.stop()


def serve(grass: Grass, store: str) -> subprocess.Popen[bytes]:
    """A daemon on a store, in a terminal of its own, once it answers."""
    daemon = grass.start("daemon", "--store", store)

    def answers() -> bool:
        with grass.client() as client:
            client.autostart = False
            try:
                return bool(client.info()["pid"] == daemon.pid)
            except GrassError:
                return False

    eventually(answers, "it answers")
    return daemon


def test_jobs_in_postgres_survive_a_killed_daemon_and_run_after_it(grass: Grass, server: postgres.Server) -> None:
    url = server.database()
    daemon = serve(grass, url)
    grass.ok("pause")
    ids = [grass.enqueue("sh", "-c", f"exit {n}") for n in range(5)]
    end(daemon.pid)
    daemon.wait(DEADLINE_S)
    # Started by the next command, it serves the same store.
    grass.ok("resume")
    assert [job["exit_code"] for job in grass.ended(*ids)] == [0, 1, 2, 3, 4]
    assert not (grass.home / "store.db").exists()


def test_a_queue_moves_to_postgres_and_back_with_all_it_knows(grass: Grass, server: postgres.Server) -> None:
    grass.ok("create-queue", "exp", "--cpu=1")
    first = grass.enqueue("exp", "--", "sh", "-c", "echo hello; exit 3")
    grass.ended(first)
    grass.ok("pause")
    waiting = grass.enqueue("exp", "--name", "later", "--", "echo", "moved")
    url, file = server.database(), f"sqlite:{grass.home}/store.db"
    assert "grass stop" in grass.refuses(5, "store", "copy", file, url)
    grass.ok("stop")
    assert grass.ok("store", "copy", file, url).startswith("copied 2 jobs")
    serve(grass, url)
    assert grass.job(first)["exit_code"] == 3 and grass.log(first) == "hello\n"
    grass.ok("resume")
    grass.until(waiting, "succeeded")
    assert "a broker uses" in grass.refuses(5, "store", "copy", url, f"sqlite:{grass.cwd}/other.db")
    grass.ok("stop")
    grass.ok("store", "copy", url, f"sqlite:{grass.cwd}/back.db")
    assert (grass.cwd / "back.db").stat().st_mode & 0o077 == 0, "environments are in it"
    serve(grass, f"sqlite:{grass.cwd}/back.db")
    assert [job["state"] for job in grass.jobs()] == ["failed", "succeeded"]
    assert grass.enqueue("true") == waiting + 1


def test_a_database_that_cannot_be_reached_is_told_in_a_sentence_without_its_password(grass: Grass) -> None:
    said = grass.refuses(5, "daemon", "--store", "postgresql://me:hunter2@127.0.0.1:1/none")
    assert "127.0.0.1" in said and "hunter2" not in said
