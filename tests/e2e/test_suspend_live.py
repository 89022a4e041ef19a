"""A job is suspended and goes on, by command line and SDK; its devices are kept, or given to others and come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.world import Grass, eventually

from grassq import Client


def states(pid: int) -> set[str]:
    """The states of a process and its children, without those that have ended."""
    found = [f"/proc/{pid}/stat", *(f"/proc/{child}/stat" for child in _children(pid))]
    return {Path(path).read_text().rpartition(") ")[2][0] for path in found} - {"Z"}


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_job_is_suspended_and_resumed(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--capacity", "{lathe: 1}")
    count = grass.write("count", "")
    line = f"while :; do echo x >>{count}; sleep 0.01; done"
    long, other = (grass.enqueue("--name", name, "--lathe=1", "q", "sh", "-c", line) for name in ("long", "other"))
    pid = grass.until(long, "running")["pid"]

    assert "`grass suspend long` stops a running job" in grass.refuses(2, "pause", "long")
    assert f"`grass hold {other}` keeps it from starting" in grass.refuses(5, "suspend", str(other))
    grass.refuses(3, "suspend", "nobody")
    grass.refuses(2, "suspend")

    # Kept: nobody gets the lathe, and nothing moves.
    assert f"job {long}: told to stop; `grass resume {long}` lets it go on" in grass.ok("suspend", "long")
    eventually(lambda: states(pid) <= {"T", "D"}, "it is stopped")
    eventually(lambda: "its devices stay taken" in grass.ok("why", "long"), "the worker has confirmed it")
    job = grass.job(long)
    assert (job["state"], job["suspended"], job["suspended_since"] is not None) == ("running", "kept", True)
    assert "state     suspended\n" in grass.ok("show", str(long)) and "suspended " in grass.ok("show", "all")
    before = count.read_text()
    assert "is suspended already, since " in grass("suspend", str(long)).err
    assert grass.job(other)["state"] == "queued"

    # The daemon is killed; the next one lets it go on, and stops it again, for others this time.
    grass.crash()
    assert states(pid) <= {"T", "D"} and count.read_text() == before
    assert f"job {long}: told to go on" in grass.ok("resume", str(long))
    eventually(lambda: count.read_text() != before, "it goes on")
    eventually(lambda: grass.job(long)["suspended"] is None, "it runs")
    freed = grass("suspend", str(long), "--free")
    assert freed.code == 0 and "keeps what it has allocated in device memory" in freed.err
    grass.until(other, "running")
    assert grass.job(long)["suspended"] == "freed" and states(pid) <= {"T", "D"}

    # Back again: not before the other one has ended, and before anybody else.
    late = grass.enqueue("--lathe=1", "q", "true")
    told = grass("resume", str(long))
    assert f"held by job {other}" in told.err and grass.job(long)["suspended"] == "resuming"
    assert f"held by job {other}" in grass.ok("why", str(long))
    grass.ok("kill", "--grace", "0", str(other))
    eventually(lambda: grass.job(long)["suspended"] is None, "it goes on")
    assert grass.job(late)["state"] == "queued" and states(pid) - {"T"}

    with Client(grass.home) as client:
        handle = client.job(long)
        assert handle.suspend() is handle and handle.running()
        eventually(lambda: states(pid) <= {"T", "D"}, "it is stopped")
        assert handle.suspended == "kept"
        assert [job.id for job in client.resume("long")] == [long]
        eventually(lambda: handle.suspended is None, "it runs")
        with pytest.warns(UserWarning, match="device memory"):
            client.suspend([long], free=True)
        assert client.wait(late, timeout=60)[0].exit_code == 0
        assert client.resume("q") == [], "a queue"
        assert handle.suspended == "freed"
        # A suspended job is killed as any other.
        assert handle.kill(grace_s=5).wait(60).state == "cancelled"
    assert grass.ok("resume") == "resumed all queues\n" and grass.ok("resume", "q") == "resumed queue q\n"
    grass.refuses(3, "resume", "nobody")
    assert "is not suspended (cancelled)" in grass("resume", str(long)).err
