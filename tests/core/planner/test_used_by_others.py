"""What programs outside of Grass use of a machine is given to no job, and the jobs that need it wait for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, allocations_of, apply, finish

from grassq.core.messages import Hello
from grassq.core.model import Job, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.explain import explain, never_fits
from grassq.core.planner.plan import plan
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.fit import FreeView, free_json
from grassq.core.worker_checks import checked
from grassq.errors import BadInput

GPUS = {"0": {"vram": 8}, "1": {"vram": 8}}


def a_shared_worker(used: Allocation) -> WorkerInfo:
    return replace(a_worker(cpu=8, mem=16, gpu=GPUS), used_by_others=used)


def started(board: Board) -> list[int]:
    found = plan(board, T0)
    apply(board, found)
    return sorted(job for job, _ in found.placements)


def test_a_device_in_use_by_others_gets_no_job_and_the_other_device_does() -> None:
    board = a_board(a_shared_worker({"gpu": {"0": ONE}}), jobs=[a_job(1, gpu=1), a_job(2, gpu=0.25), a_job(3, vram=1)])
    found = plan(board, T0)
    assert allocations_of(found) == {1: {"gpu": {"1": ONE}}}
    apply(board, found)
    assert [each.others for each in explain(board, board.jobs[2], T0)] == ["device 0"]
    assert [each.others for each in explain(board, board.jobs[3], T0)] == ["device 0"]


def test_memory_of_a_device_that_others_use_is_missing_and_the_device_can_be_had_whole() -> None:
    jobs = [a_job(1, vram=6), a_job(2, gpu=2)]
    board = a_board(a_shared_worker({"vram": {"0": 4 * ONE, "1": 4 * ONE}}), jobs=jobs)
    assert started(board) == [2]
    (blocker,) = explain(board, board.jobs[1], T0)
    assert blocker.others == "4 vram of gpu 0, 4 vram of gpu 1"


def test_memory_of_the_machine_that_others_use_is_not_free() -> None:
    board = a_board(a_shared_worker({"mem": 10 * ONE}), jobs=[a_job(1, mem=7), a_job(2, mem=6)])
    assert started(board) == [2]
    (blocker,) = explain(board, board.jobs[1], T0)
    assert (blocker.others, blocker.holders) == ("10 mem", (2,))


def test_a_job_that_others_keep_from_starting_can_still_run_one_day() -> None:
    board = a_board(a_shared_worker({"gpu": {"0": ONE, "1": ONE}, "mem": 16 * ONE}))
    assert never_fits(board, "default", a_request(gpu=2, mem=16)) is None


def test_others_that_come_and_go_leave_running_jobs_what_they_hold() -> None:
    board = a_board(a_shared_worker({}), jobs=[a_job(1, gpu=1, mem=8), a_job(2, gpu=1, mem=8)])
    assert started(board) == [1, 2]
    board.set_worker(a_shared_worker({"gpu": {"0": ONE, "1": ONE}, "mem": 16 * ONE}), online=True, now=T0)
    board.put(a_job(3, gpu=1))
    assert started(board) == []
    finish(board, 1)
    assert started(board) == []
    board.set_worker(a_shared_worker({}), online=True, now=T0)
    assert started(board) == [3]
    finish(board, 2)
    finish(board, 3)
    machine = board.workers["w"].machine
    assert free_json(FreeView(machine, machine), machine.supply) == {
        "cpu": 8.0,
        "mem": 16.0,
        "gpu": {"0": 1.0, "1": 1.0},
    }


def test_what_others_use_of_a_device_that_is_not_there_changes_nothing() -> None:
    board = a_board(
        a_shared_worker({"gpu": {"7": ONE}, "licence": 3 * ONE, "vram": {"9": ONE}}), jobs=[a_job(1, gpu=2)]
    )
    assert started(board) == [1]


shares = st.integers(0, 20).map(lambda parts: parts * ONE)
used = st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.dictionaries(st.sampled_from("01"), st.just(ONE), max_size=2),
        "vram": st.dictionaries(st.sampled_from("01"), shares, max_size=2),
        "mem": shares,
    },
)
asked = st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.sampled_from([0.25, 0.5, 1, 2]),
        "vram": st.integers(1, 8),
        "mem": st.integers(1, 16),
        "cpu": st.integers(1, 8),
    },
)


@given(st.lists(asked, max_size=6), st.lists(used, min_size=1, max_size=4))
def test_jobs_and_others_together_never_take_more_than_there_is_when_a_job_starts(
    requests: list[dict[str, Any]], history: list[Allocation]
) -> None:
    jobs = [a_job(id_, **request) for id_, request in enumerate(requests, 1)]
    board = a_board(a_shared_worker({}), jobs=jobs)
    for others in history:
        board.set_worker(a_shared_worker(others), online=True, now=T0)
        before = {job.id for job in board.holding.values()}
        apply(board, plan(board, T0))
        for job in board.holding.values():
            if job.id not in before:
                _assert_beside(others, job, [*board.holding.values()])


def _assert_beside(others: Allocation, job: Job, holding: list[Job]) -> None:
    assert job.placement is not None
    allocation = job.placement.allocation
    busy, memory, mem = others.get("gpu", {}), others.get("vram", {}), others.get("mem", 0)
    assert isinstance(busy, dict) and isinstance(memory, dict) and isinstance(mem, int)
    placed = [each.placement.allocation for each in holding if each.placement is not None]
    for name in ("gpu", "vram"):
        devices = allocation.get(name, {})
        assert isinstance(devices, dict) and busy.keys().isdisjoint(devices)
    vram = allocation.get("vram", {})
    assert isinstance(vram, dict)
    for device in vram:
        held = sum(each.get("vram", {}).get(device, 0) for each in placed)  # type: ignore[union-attr, misc]
        assert held + memory.get(device, 0) <= 8 * ONE
    if "mem" in allocation:
        assert sum(each.get("mem", 0) for each in placed) + mem <= 16 * ONE  # type: ignore[misc]


@pytest.mark.parametrize(
    "lie",
    [
        {"mem": -1},
        {"mem": 1 << 62},
        {"gpu": {"0": -5}},
        {"gpu": {"\x1b[31m": ONE}},
        {"No Name": 1},
        {"gpu": {str(id_): ONE for id_ in range(5000)}},
        {f"r{number}": 1 for number in range(100)},
    ],
)
def test_a_worker_that_lies_about_others_is_refused(lie: Allocation) -> None:
    checked(Hello(a_shared_worker({"gpu": {"0": ONE}, "vram": {"1": ONE}, "mem": ONE})))
    with pytest.raises(BadInput):
        checked(Hello(a_shared_worker(lie)))
