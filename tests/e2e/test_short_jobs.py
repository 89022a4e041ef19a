"""Brief jobs follow one another: each still runs once, alone on its device, and can be stopped, through crashes too."""

from __future__ import annotations

import random
import subprocess
from collections import Counter

import pytest
from tests.e2e.test_crash import let_pass
from tests.e2e.world import BIN, Grass

JOBS = 600
#: Alone on its device, or it says so; and it leaves a line.
PROBE = """\
mkdir "lock-$GRASS_GPU" 2>/dev/null || echo "two on $GRASS_GPU" >> shared
echo "$GRASS_JOB_ID $GRASS_ATTEMPT $GRASS_GPU" >> ledger
rmdir "lock-$GRASS_GPU"
"""


def enqueue(grass: Grass, lines: list[str]) -> None:
    argv = [str(BIN / "grass"), "enqueue", "q", "--gpu=1", "--stdin"]
    text = "".join(f"{line}\n" for line in lines).encode()
    subprocess.run(argv, input=text, cwd=grass.cwd, env=grass.env, timeout=60, check=True, stdout=subprocess.DEVNULL)


def followers(grass: Grass) -> int:
    """How many attempts took over from another."""
    return sum(1 for _ in (grass.home / "jobs").glob("*/*/next"))


@pytest.mark.timeout(180)
def test_brief_jobs_run_once_each_and_alone_on_their_devices_through_kills_of_the_daemon(grass: Grass) -> None:
    grass.write("probe.sh", PROBE)
    grass.ok("create-queue", "q", "--gpu=2")
    enqueue(grass, ["sh probe.sh"] * JOBS)
    dice = random.Random(7)
    for _ in range(6):
        let_pass(dice.uniform(0.05, 0.5))
        grass.crash()
        grass.ok("show")
    grass.ended(*range(1, JOBS + 1))
    ran = Counter(line.split()[0] for line in (grass.cwd / "ledger").read_text().splitlines())
    assert ran == {str(id_): 1 for id_ in range(1, JOBS + 1)}
    assert not (grass.cwd / "shared").exists(), "two jobs were on one device"
    assert grass.json("show")["totals"] == {"succeeded": JOBS}
    assert grass.queue("q")["free"]["gpu"] == {"0": 1.0, "1": 1.0}
    assert followers(grass) > 0


@pytest.mark.timeout(120)
def test_a_long_job_among_brief_ones_holds_nobody_up_and_a_pause_holds(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=2")
    enqueue(grass, ["true"] * 60 + ["sleep 1000"] + ["true"] * 60)
    done = [*range(1, 61), *range(62, 122)]
    grass.ended(*done)
    assert grass.job(61)["state"] == "running", "all others went past it"
    enqueue(grass, ["true"] * 400)
    grass.ok("pause", "q")
    grass.ok("kill", "61")
    before = grass.ended(61)[0]
    assert before["state"] == "cancelled"
    let_pass(0.5)
    waiting = [job["id"] for job in grass.jobs("queued")]
    let_pass(0.3)
    assert [job["id"] for job in grass.jobs("queued")] == waiting, "nothing starts while the queue is paused"
    grass.ok("resume", "q")
    grass.ended(*range(122, 522))
    assert grass.json("show")["totals"] == {"succeeded": 520, "cancelled": 1}
