"""When jobs start and end, through a real daemon: from the runs before, over a restart, and with a change."""

from __future__ import annotations

from tests.e2e.world import Grass

#: A job that writes how far it is.
TICKS = 'for i in 1 2 3; do echo "$i/3"; sleep 0.05; done'


def test_eta_why_and_what_if_of_a_real_queue(grass: Grass) -> None:
    grass.ok("create-queue", "one", "--cpu=1")
    assert grass.ok("eta") == "nothing runs and nothing is queued\n"
    assert grass.ok("eta", "--check") == "no finished predictions yet\n"
    assert grass("eta", "7").code == 3
    for _ in range(3):
        grass.ok("run", "one", "--name=s", "--shell", "--", TICKS)
    running = grass.enqueue("one", "--name=s", "--", "sleep", "60")
    waiting = grass.enqueue("one", "--name=s", "--", "sleep", "60")
    grass.until(running, "running")
    grass.ok("restart")
    found = grass.json("eta", "s", "--json")
    jobs = {job["id"]: job for job in found["jobs"]}
    assert jobs.keys() == {running, waiting} and found["unfinished"] == 2
    assert jobs[waiting]["n"] == 3 and jobs[waiting]["basis"].startswith("3 like runs (same name)")
    assert found["now"] <= jobs[waiting]["starts"]["low"] <= jobs[waiting]["starts"]["high"] <= found["done"]["high"]
    assert "starts " in grass.ok("why", str(waiting)) and "(" in grass.ok("eta", str(waiting))
    would = grass.ok("what-if", "one", "--name=s", "--", "sleep", "1")
    assert would.startswith("it would start ") and "from 3 like runs (same name)" in would
    assert grass.ok("what-if", "--capacity", "{cpu: 4}").splitlines()[0].split()[0] == "CAPACITY"
    assert grass("what-if", "--capacity", "{cpu: ").code == 2
    assert [job["id"] for job in grass.jobs("all")] == [1, 2, 3, running, waiting], "nothing was stored"
    grass.ok("hold", str(waiting))
    assert "no estimate: the job is held" in grass.ok("eta", str(waiting))
