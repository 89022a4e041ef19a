"""Devices are added, removed and drained while jobs run: F69 and T35, over restarts, by every door."""

from __future__ import annotations

import pytest
from tests.e2e.world import Grass, eventually

import grassq

SHOW_GPU = ("sh", "-c", "echo {gpu}")


@pytest.fixture
def two(grass: Grass) -> Grass:
    """A machine with two devices."""
    grass.env["GRASS_CAPACITY"] = "{gpu: 2, cpu: 8}"
    return grass


def listed(grass: Grass) -> dict[str, str]:
    """The devices and their states as `grass device` prints them."""
    lines = [line.split() for line in grass.ok("device").splitlines()[1:]]
    return {line[2]: line[3] for line in lines}


def test_a_busy_device_finishes_first_and_a_new_one_gets_the_next_job(two: Grass) -> None:
    """F69: remove a busy device: its job finishes, the device is gone; add 7: the next job gets 7."""
    first, second = (two.gated("go", "--gpu=1") for _ in range(2))
    two.until(second, "running")
    done = two("device", "remove", "0")
    assert done.err == f"grass: gpu 0 is held by job {first}, which will finish; then gpu 0 is gone\n", done
    assert listed(two) == {"1": "busy", "0": "leaving"}
    waiting = two.enqueue("--gpu=1", "--", *SHOW_GPU)
    assert "gpu 7 on " in two.ok("device", "add", "7")
    two.until(waiting, "succeeded")
    assert two.log(waiting) == "7\n" and two.job(first)["state"] == "running"
    two.open_gate("go")
    two.ended(first, second)
    eventually(lambda: listed(two) == {"1": "free", "7": "free"}, "it is gone")
    assert "3 gpu asked" in two.refuses(5, "enqueue", "--gpu=3", "true")


def test_drained_devices_get_no_jobs_and_stay_so_over_a_crash(two: Grass) -> None:
    running = two.gated("go", "--gpu=1")
    two.until(running, "running")
    two.ok("device", "drain", "0,1")
    waiting = two.enqueue("--gpu=2", "--", *SHOW_GPU)
    assert "gpu 0, 1 are drained" in two.ok("why", str(waiting))
    assert two.json("why", str(waiting))["jobs"][0]["blocked"][0]["drained"] == ["0", "1"]
    assert "gpu 0,1 drained" in two.ok("show")
    assert "gpu 0, 1 drained: no new jobs there" in two("doctor").out
    assert "drained; 1 sh -c" in two.ok("top", "--once", env={"COLUMNS": "200"})
    two.crash()
    assert listed(two) == {"0": "drained", "1": "drained"}
    (worker,) = two.json("show")["workers"]
    assert worker["drained_devices"] == {"gpu": ["0", "1"]} and worker["leaving_devices"] == {}
    two.open_gate("go")
    two.ended(running)
    assert two.job(waiting)["state"] == "queued"
    two.ok("device", "undrain", "1")
    half = two.enqueue("--gpu=0.5", "--", *SHOW_GPU)
    two.until(half, "succeeded")
    assert two.log(half) == "1\n"
    advice = two("doctor").out.partition("-> `grass device undrain")[2].partition("`")[0].split()
    assert advice[0] == "0" and "--worker" in advice
    two.ok("device", "undrain", *advice)
    two.until(waiting, "succeeded")
    assert two.log(waiting) == "0,1\n"


def test_kill_ends_the_jobs_of_a_removed_device_and_no_others(two: Grass) -> None:
    first, second = (two.gated("go", "--gpu=1") for _ in range(2))
    two.until(second, "running")
    assert f"killed job {first}" in two.ok("device", "remove", "0", "--kill")
    two.until(first, "cancelled")
    assert two.job(second)["state"] == "running" and [*listed(two)] == ["1"]
    two.open_gate("go")
    two.ended(second)


def test_devices_of_queues_and_slots_and_programs(two: Grass, client: grassq.Client) -> None:
    with client:
        two.ok("create-queue", "printing", "--printer=a,b")
        two.ok("create-queue", "slotted", "--slots", "0 1")
        client.change_devices("drain", "a", resource="printer")
        client.change_devices("drain", 1)
        printed = two.enqueue("printing", "--printer=1", "--", "echo", "{printer}")
        two.until(printed, "succeeded")
        assert two.log(printed) == "b\n"
        ids = [two.enqueue("slotted", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") for _ in range(2)]
        two.ended(*ids)
        assert [two.log(id_) for id_ in ids] == ["0\n", "0\n"], "the slot of device 1 is not given"
        states = {(each["resource"], each["id"]): each["drained"] for each in client.devices()}
        assert states == {("gpu", "0"): False, ("gpu", "1"): True, ("printer", "a"): True, ("printer", "b"): False}
        with pytest.raises(grassq.NotFound, match="has no gpu '9'"):
            client.change_devices("remove", 9)


def test_wrong_words_are_refused_in_a_line(grass: Grass) -> None:
    assert "there is no `grass device explode`" in grass.refuses(2, "device", "explode", "0")
    assert "say which devices" in grass.refuses(2, "device", "drain")
    assert "takes no devices" in grass.refuses(2, "device", "list", "0")
    assert "--kill goes with" in grass.refuses(2, "device", "drain", "0", "--kill")
    assert "--vram goes with" in grass.refuses(2, "device", "drain", "0", "--vram", "8G")
    assert "there is no worker 'nobody'" in grass.refuses(3, "device", "drain", "0", "--worker", "nobody")
    assert "with --broker, add --worker" in grass.refuses(2, "device", "drain", "0", "--broker", "far.example")
    assert grass.ok("device").startswith("no devices")
