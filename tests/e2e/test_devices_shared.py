"""Devices: named, shared in fractions, told to the job, and never given out twice."""

from __future__ import annotations

import pytest
from tests.e2e.world import Grass

SHOW_GPU = ("sh", "-c", "echo $0; until [ -e go ]; do sleep 0.02; done", "{gpu}")


def test_a_list_names_the_devices_of_a_queue(grass: Grass) -> None:
    """F2, T5: two whole devices of [2,3] are 2 and 3; `2,3` says the same without a glob (T6)."""
    grass.ok("create-queue", "exp2", "--cpu=4", "--gpu=[2,3]")
    grass.ok("create-queue", "same", "--gpu=2,3")
    assert grass.queue("same")["limits"]["gpu"] == grass.queue("exp2")["limits"]["gpu"] == {"2": 1.0, "3": 1.0}
    ids = [grass.enqueue("exp2", "--gpu=1", "--", *SHOW_GPU) for _ in range(2)]
    for id_ in ids:
        grass.until(id_, "running")
    grass.open_gate("go")
    grass.ended(*ids)
    assert [grass.log(id_).strip() for id_ in ids] == ["2", "3"]


def test_capacity_reads_json5_before_or_after_the_name(grass: Grass) -> None:
    """F3, F4, T7."""
    grass.ok("create-queue", "--capacity", "{gpu:4,cpu:3}", "a", "echo")
    grass.ok("create-queue", "b", "--capacity", "{'gpu': 4, cpu: 3,}", "echo")
    assert grass.queue("a")["limits"] == grass.queue("b")["limits"]
    line = grass.refuses(2, "create-queue", "--capacity", "{gpu:4", "c")
    assert "--capacity" in line
    assert "'2'" in grass.refuses(2, "create-queue", "--capacity", "{gpu:{2:1}}", "c")
    assert "c" not in {queue["name"] for queue in grass.json("show")["queues"]}
    for spelling in ("{gpu:.5,}", "{'gpu':0.5}"):
        assert grass.job(grass.enqueue("--require", spelling, "a", "hi"))["request"] == {"gpu": 0.5}


def test_a_printer_prints_one_thing_at_a_time(grass: Grass) -> None:
    """F5, F6: a resource of one's own."""
    tool = grass.write("lpr", '#!/bin/sh\necho "lpr $1"; until [ -e "$1.done" ]; do sleep 0.02; done\n', 0o755)
    grass.ok("create-queue", "--capacity", "{printer:1}", "print", str(tool))
    first, second = (grass.enqueue("--require", "{printer:1}", "print", paper) for paper in ("a.pdf", "b.pdf"))
    grass.until(first, "running")
    assert grass.job(second)["state"] == "queued"
    grass.open_gate("a.pdf.done")
    grass.until(second, "running")
    grass.open_gate("b.pdf.done")
    one, two = grass.ended(first, second)
    assert one["finished"] <= two["started"]
    assert grass.log(second) == "lpr b.pdf\n"


def test_a_required_device_is_held_while_the_job_runs(grass: Grass) -> None:
    """F8."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.gated("go", "--require", "{gpu:1}", "q")
    assert grass.until(id_, "running")["allocation"] == {"gpu": {"0": 1.0}}
    assert grass.queue("q")["free"]["gpu"] == {"0": 0.0}
    grass.open_gate("go")
    grass.ended(id_)
    assert grass.queue("q")["free"]["gpu"] == {"0": 1.0}


def test_four_jobs_are_told_four_different_devices(grass: Grass) -> None:
    """F15."""
    grass.ok("create-queue", "q", "--gpu=4")
    ids = [grass.enqueue("q", "--gpu=1", "--", *SHOW_GPU) for _ in range(4)]
    for id_ in ids:
        grass.until(id_, "running")
    grass.open_gate("go")
    grass.ended(*ids)
    assert sorted(grass.log(id_).strip() for id_ in ids) == ["0", "1", "2", "3"]


def test_halves_fill_two_devices_and_a_fifth_waits(grass: Grass) -> None:
    """F17."""
    grass.ok("create-queue", "q", "--gpu=2")
    ids = [grass.gated("go", "q", "--gpu=0.5") for _ in range(5)]
    held = [grass.until(id_, "running")["allocation"]["gpu"] for id_ in ids[:4]]
    assert sorted(device for each in held for device in each) == ["0", "0", "1", "1"]
    assert grass.job(ids[4])["state"] == "queued"
    grass.open_gate("go")
    assert {job["state"] for job in grass.ended(*ids)} == {"succeeded"}


def test_ten_tenths_are_exactly_one(grass: Grass) -> None:
    """F18, T18."""
    grass.ok("create-queue", "q", "--gpu=1")
    ids = [grass.gated("go", "q", "--gpu=0.1") for _ in range(11)]
    for id_ in ids[:10]:
        grass.until(id_, "running")
    assert grass.job(ids[10])["state"] == "queued"
    assert grass.queue("q")["free"]["gpu"] == {"0": 0.0}
    grass.open_gate("go")
    grass.ended(*ids)
    assert grass.queue("q")["free"]["gpu"] == {"0": 1.0}


def test_two_and_a_half_gpus_are_three_devices(grass: Grass) -> None:
    """F19, T13."""
    grass.ok("create-queue", "q", "--gpu=4")
    id_ = grass.enqueue("--require", "{gpu:2.5}", "q", *SHOW_GPU)
    held = grass.until(id_, "running")["allocation"]["gpu"]
    assert sorted(held.values()) == [0.5, 1.0, 1.0]
    assert sum(grass.queue("q")["free"]["gpu"].values()) == 1.5
    grass.open_gate("go")
    grass.ended(id_)
    assert grass.log(id_).strip() == ",".join(sorted(held))


def test_two_queues_that_name_one_device_share_it(grass: Grass) -> None:
    """A device is one thing per machine, whoever names it."""
    grass.ok("create-queue", "a", "--gpu=[0]")
    grass.ok("create-queue", "b", "--gpu=[0]")
    first = grass.gated("go", "a", "--gpu=1")
    grass.until(first, "running")
    second = grass.gated("go", "b", "--gpu=1")
    assert grass.job(second)["state"] == "queued"
    grass.open_gate("go")
    assert [job["state"] for job in grass.ended(first, second)] == ["succeeded"] * 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("q", "--gpu=3", "--", "true"), "gpu"),
        (("--require", "{gpu:2.5}", "q", "true"), "gpu"),
        (("--require", "{printer:1}", "q", "true"), "printer"),
        (("--cpu=9", "--", "true"), "cpu"),
    ],
)
def test_what_can_never_fit_is_refused_with_the_reason(grass: Grass, words: tuple[str, ...], reason: str) -> None:
    """Exit 5, and nothing is stored."""
    grass.ok("create-queue", "q", "--gpu=2")
    assert reason in grass.refuses(5, "enqueue", *words)
    grass.nothing_was_stored()


def test_why_names_resource_need_rest_and_holder(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=2")
    holders = [grass.gated("go", "q", "--gpu=1"), grass.gated("go", "q", "--gpu=0.75")]
    for id_ in holders:
        grass.until(id_, "running")
    blocked = grass.gated("go", "q", "--gpu=1")
    document = grass.json("why", str(blocked))["jobs"][0]["blocked"]
    assert [(each["resource"], each["needed"], each["free"]) for each in document] == [("gpu", 1.0, 0.25)]
    assert document[0]["holders"] == holders
    text = grass.ok("why", str(blocked))
    assert "gpu" in text and "1 needed, 0.25 free" in text and f"{holders[0]}, {holders[1]}" in text
    assert "runn" in grass.ok("why", str(holders[0]))
    grass.open_gate("go")


def test_no_lesser_job_takes_what_an_urgent_one_waits_for(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    first, second = (grass.gated(gate, "q", "--gpu=0.5") for gate in ("one", "two"))
    for id_ in (first, second):
        grass.until(id_, "running")
    lesser = grass.enqueue("q", "--gpu=0.5", "--", "true")
    urgent = grass.enqueue("q", "--gpu=1", "--priority", "90", "--", "true")
    assert "jobs that come first: 1 of higher priority" in grass.ok("why", str(lesser))
    assert "next in line; room is kept for it on" in grass.ok("why", str(urgent))
    grass.open_gate("one")
    grass.ended(first)
    # The end of a job and what starts then are decided at once.
    assert grass.job(lesser)["state"] == "queued"
    assert f"kept for job {urgent}, which has a higher priority" in grass.ok("why", str(lesser))
    grass.open_gate("two")
    jobs = grass.ended(urgent, lesser)
    assert jobs[0]["started"] <= jobs[1]["started"]


def test_a_fraction_as_a_capacity_is_no_capacity(grass: Grass) -> None:
    grass.refuses(2, "create-queue", "q", "--gpu=2.5")
    grass.refuses(2, "create-queue", "q", "--gpu=[1,1]")
    assert [queue["name"] for queue in grass.json("show")["queues"]] == ["default"]
