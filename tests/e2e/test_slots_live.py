"""Queues with slots: a job takes one, is told its name, and shares its devices with no other queue."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest
from tests.e2e.world import BIN, Grass, eventually

import grassq
from grassq.errors import BadInput

#: What a job in a slot is told; then it runs until the gate is open.
TELL = 'echo "$CUDA_VISIBLE_DEVICES;$GRASS_GPU;$GRASS_SLOT"; until [ -e "$0" ]; do sleep 0.02; done'
#: Alone in its slot, or it says so; and it leaves a line.
PROBE = """\
mkdir "lock-$GRASS_SLOT" 2>/dev/null || echo "two in $GRASS_SLOT" >> shared
echo "$GRASS_JOB_ID $CUDA_VISIBLE_DEVICES" >> ledger
rmdir "lock-$GRASS_SLOT"
"""


def tell(grass: Grass, queue: str, gate: str) -> int:
    return grass.enqueue(queue, "--", "sh", "-c", TELL, grass.cwd / gate)


def slots(grass: Grass, queue: str) -> list[tuple[str, int | None]]:
    """The slots of a queue, and which job is in each."""
    return [(slot["name"], slot["job"]) for slot in grass.queue(queue)["slots"]]


def test_jobs_take_the_last_slot_first_and_who_finds_none_is_told_why(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--slots", "0 1 2,3")
    ids = [tell(grass, "q", f"go{i}") for i in range(4)]
    for id_ in ids[:3]:
        grass.until(id_, "running")
    assert grass.job(ids[0])["allocation"] == {"slot": {"2": 1.0}, "gpu": {"2": 1.0, "3": 1.0}}
    assert slots(grass, "q") == [("0", ids[2]), ("1", ids[1]), ("2,3", ids[0])]
    assert (grass.queue("q")["order"], grass.queue("q")["limits"]) == ("stack", {"gpu": dict.fromkeys("0123", 1.0)})
    why = grass.ok("why", str(ids[3]))
    assert "a slot, queue q" in why and "all 3 slots are taken" in why and str(ids[1]) in why
    shown = grass.ok("show")
    assert "slots 0 1 2,3" in shown and "no slot" in shown and "needs a slot" in shown
    grass.open_gate("go1")
    assert grass.until(ids[3], "running")["allocation"] == {"slot": {"1": 1.0}, "gpu": {"1": 1.0}}, "the one just freed"
    for gate in ("go0", "go2", "go3"):
        grass.open_gate(gate)
    grass.ended(*ids)
    assert [grass.log(id_).strip() for id_ in ids] == ["2,3;2,3;2", "1;1;1", "0;0;0", "1;1;1"]
    assert [job for _, job in slots(grass, "q")] == [None] * 3


def test_a_slot_keeps_the_order_of_its_devices_and_an_id_listed_twice_is_shared(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--slots=1,0 2 2", "--order", "rotate")
    ids = [tell(grass, "q", "go") for _ in range(3)]
    jobs = [grass.until(id_, "running") for id_ in ids]
    assert [job["allocation"]["gpu"] for job in jobs] == [{"1": 1.0, "0": 1.0}, {"2": 0.5}, {"2": 0.5}]
    grass.open_gate("go")
    grass.ended(*ids)
    assert [grass.log(id_).strip() for id_ in ids] == ["1,0;0,1;0", "2;2;1", "2;2;2"]


def test_a_slot_waits_for_the_devices_of_other_queues_and_they_for_it(grass: Grass) -> None:
    grass.ok("create-queue", "plain", "--gpu=[0,1]")
    grass.ok("create-queue", "q", "--slots", "0,1")
    part = grass.gated("part", "plain", "--gpu=0.5")
    assert grass.until(part, "running")["allocation"] == {"gpu": {"0": 0.5}}
    first, second = tell(grass, "q", "go"), tell(grass, "q", "go")
    assert grass.until(first, "running")["allocation"]["gpu"] == {"1": 1.0}, "slot 1 is the last, and free"
    assert "the devices of its free slots are in use" in grass.ok("why", str(second))
    whole = grass.gated("whole", "plain", "--gpu=1")
    assert grass.job(whole)["state"] == "queued"
    grass.open_gate("part")
    grass.until(second, "running")
    assert grass.job(whole)["state"] == "queued", "both devices are in slots"
    grass.open_gate("go")
    grass.until(whole, "running")
    grass.open_gate("whole")
    grass.ended(part, first, second, whole)


def test_amounts_have_no_place_in_a_queue_with_slots(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--slots", "0")
    assert "slots" in grass.refuses(2, "enqueue", "q", "--gpu=1", "--", "true")
    assert "slots" in grass.refuses(2, "enqueue", "q", "--require", "{cpu: 1}", "--", "true")
    with grassq.Client(home=str(grass.home)) as client:
        with pytest.raises(BadInput, match="slots"):
            client.submit(["true"], queue="q", gpu=0.5)
        with pytest.raises(BadInput, match="slots"):
            client.submit_many([["true"]], queue="q", cpu=1)
        grass.nothing_was_stored()
        assert client.submit(["true"], queue="q").wait(timeout=30).exit_code == 0
    assert grass.run("q", "echo", "{gpu}") == "0\n"
    grass.ok("create-queue", "q", "--gpu=1")
    assert grass.until(grass.enqueue("q", "--gpu=1", "--", "true"), "succeeded"), "a queue without slots again"


def test_slots_that_make_no_sense_make_no_queue(grass: Grass) -> None:
    grass.env["GRASS_CAPACITY"] = "{cpu: 8, gpu: 2}"
    for words in (["--slots", "0,"], ["--slots", "0", "--gpu=1"], ["--slots", "0", "--order", "x"], ["--order=stack"]):
        grass.refuses(2, "create-queue", "q", *words)
    assert "no gpu 7" in grass.refuses(5, "create-queue", "q", "--slots", "0 1,7")
    assert "q" not in {queue["name"] for queue in grass.json("show")["queues"]}
    assert "created" in grass.ok("create-queue", "q", "--slots", "0 1")
    assert "unchanged" in grass.ok("create-queue", "q", "--slots", "0,1")
    assert "replaced" in grass.ok("create-queue", "q", "--slots", "0,1", "--order", "rotate")


def test_slots_stay_held_through_a_crash_of_the_daemon(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--slots", "0 1")
    first, second = tell(grass, "q", "go1"), tell(grass, "q", "go2")
    grass.until(first, "running")
    grass.until(second, "running")
    third = tell(grass, "q", "go3")
    grass.crash()
    grass.ok("start")
    assert slots(grass, "q") == [("0", second), ("1", first)]
    grass.open_gate("go2")
    assert grass.until(third, "running")["allocation"]["slot"] == {"0": 1.0}
    for gate in ("go1", "go3"):
        grass.open_gate(gate)
    assert {job["state"] for job in grass.ended(first, second, third)} == {"succeeded"}


@pytest.mark.timeout(120)
def test_many_brief_jobs_never_share_a_slot(grass: Grass) -> None:
    grass.write("probe.sh", PROBE)
    grass.ok("create-queue", "q", "--slots", "0,0,1")
    argv = [str(BIN / "grass"), "enqueue", "q", "--stdin"]
    lines = b"sh probe.sh\n" * 300
    subprocess.run(argv, input=lines, cwd=grass.cwd, env=grass.env, timeout=60, check=True, stdout=subprocess.DEVNULL)
    eventually(lambda: grass.json("show")["totals"] == {"succeeded": 300}, "all have run")
    assert not (grass.cwd / "shared").exists()
    ran = [line.split() for line in (grass.cwd / "ledger").read_text().splitlines()]
    assert sorted(int(id_) for id_, _ in ran) == [*range(1, 301)]
    assert Counter(visible for _, visible in ran).keys() == {"0", "1"}
