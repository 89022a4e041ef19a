"""A drained or removed device gets no new job, whatever jobs ask for; what runs there keeps what it holds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, allocations_of, an_offer, apply, finish

from grassq.core.messages import Withdraw
from grassq.core.model import Job, Offer, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.explain import explain, never_fits
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.plan import plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.reconcile import due
from grassq.core.resources.amounts import ONE
from grassq.core.resources.device_changes import ChangedDevices, Verb, change, checked_change
from grassq.core.resources.slots import limits_of, parse_slots
from grassq.errors import NotFound

GPUS = {str(i): {"vram": 8} for i in range(3)}


def a_changed_worker(*offers: Offer, drained: str = "", removed: str = "", **more: Any) -> WorkerInfo:
    devices = {"gpu": ChangedDevices(drained=tuple(drained.split()), removed=tuple(removed.split()))}
    return replace(a_worker(offers=offers or None, gpu=GPUS, cpu=8), devices=devices, **more)


def started(board: Board) -> dict[int, list[str]]:
    """Plan once; the devices of each job that starts."""
    found = plan(board, T0)
    apply(board, found)
    return {job: sorted(held.get("gpu") or held.get("vram") or ()) for job, held in allocations_of(found).items()}  # type: ignore[arg-type]


def test_jobs_go_to_the_other_devices_and_are_told_why_they_wait() -> None:
    jobs = [a_job(1, gpu=1), a_job(2, gpu=1), a_job(3, gpu=0.5), a_job(4, vram=4), a_job(5, gpu=3)]
    board = a_board(a_changed_worker(drained="0 2"), jobs=jobs)
    assert started(board) == {1: ["1"]}
    for waiting in (2, 3, 4, 5):
        (blocker,) = explain(board, board.jobs[waiting], T0)
        assert blocker.drained == ("0", "2"), blocker
    assert never_fits(board, "default", a_request(gpu=3)) is None, "it waits until the devices are undrained"
    removed = a_board(a_changed_worker(removed="0 2"))
    assert never_fits(removed, "default", a_request(gpu=2)) == "2 gpu asked, queue 'default' on w has 1"


def test_a_slot_that_uses_a_drained_device_is_not_given() -> None:
    slots = parse_slots(["0", "1", "0,2"])
    offer = Offer("s", limits_of(slots), slots=slots)
    board = a_board(a_changed_worker(an_offer(), offer, drained="2"), jobs=[a_job(i, "s") for i in (1, 2, 3)])
    assert started(board) == {1: ["1"], 2: ["0"]}
    assert explain(board, board.jobs[3], T0)[0].drained == ("2",)


def test_a_job_that_needs_a_drained_device_keeps_no_room_from_others() -> None:
    """A device may be drained for days: the head of the line must not close the devices beside it."""
    board = a_board(a_changed_worker(drained="2"), jobs=[a_job(1, gpu=3)], patience=ReservationPolicy(0, 0.0))
    assert started(board) == {}
    board.put(a_job(2, gpu=1))
    assert started(board) == {2: ["0"]}
    board.set_worker(a_changed_worker(), online=True, now=T0)
    assert started(board) == {}
    board.put(a_job(3, gpu=1))
    assert started(board) == {}, "now the first in line keeps its room"
    finish(board, 2)
    assert started(board) == {1: ["0", "1", "2"]}


def test_a_device_that_is_removed_and_comes_back_is_as_full_as_it_was() -> None:
    board = a_board(a_changed_worker(), jobs=[a_job(1, gpu=0.75)])
    assert started(board) == {1: ["0"]}
    board.set_worker(a_changed_worker(removed="0 1 2"), online=True, now=T0)
    board.put(a_job(2, gpu=0.5))
    assert started(board) == {}
    board.set_worker(a_changed_worker(removed="1 2"), online=True, now=T0)
    board.put(a_job(3, gpu=0.25))
    assert started(board) == {3: ["0"]}
    finish(board, 1)
    finish(board, 3)
    assert started(board) == {2: ["0"]}


def test_nothing_follows_a_short_job_on_a_device_that_was_drained() -> None:
    pace = PrefetchPolicy(short_s=1.0, runs=1, wait_s=5.0)
    board = Board(prefetch_policy=pace)
    board.set_worker(a_changed_worker(follows=True), online=True, now=T0)
    for job in [a_job(i, gpu=3) for i in (1, 2, 3)]:
        board.put(job)
    board.prefetch.note_duration(board.jobs[1], 0.1)
    assert [*started(board)] == [1] and [*started(board)] == [2], "2 waits behind 1"
    board.set_worker(a_changed_worker(drained="1", follows=True), online=True, now=T0)
    orders = {job.id: told.order for job, told in due(board, "w", {}, T0)}
    assert isinstance(orders[2], Withdraw), "and is taken back"
    finish(board, 2)
    assert started(board) == {}


requests = st.sampled_from(
    [
        a_request(gpu=1),
        a_request(gpu=2),
        a_request(gpu=0.5),
        a_request(gpu=1.25),
        a_request(vram=3),
        a_request(gpu=0.25),
    ]
)
steps = st.one_of(
    st.tuples(st.just("submit"), requests),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["add", "remove", "drain", "undrain"]), st.sampled_from(["0", "1", "2", "7"])),
)


@settings(max_examples=150)
@given(st.lists(steps, min_size=5, max_size=40))
def test_whatever_is_changed_no_device_is_given_too_often_and_none_that_is_closed(
    history: list[tuple[str, Any]],
) -> None:
    info, number = a_changed_worker(), 0
    board = a_board(info)
    running: list[Job] = []
    for what, value in history:
        if what == "submit":
            number += 1
            board.put(a_job(number, request=value))
        elif what == "end":
            if running:
                finish(board, running.pop(value % len(running)).id)
        else:
            info = _changed(info, what, value)  # type: ignore[arg-type]
            board.set_worker(info, online=True, now=T0)
        before = {job.id: job.placement for job in running}
        found = plan(board, T0)
        apply(board, found)
        running = [*board.holding.values()]
        assert {job.id: job.placement for job in running if job.id in before} == before, "what runs keeps what it holds"
        closed = {
            *info.devices.get("gpu", ChangedDevices()).drained,
            *info.devices.get("gpu", ChangedDevices()).removed,
        }
        for _, placement in found.placements:
            for held in placement.allocation.values():
                assert not isinstance(held, dict) or closed.isdisjoint(held), (placement, closed)
        _check_sums(running)


def _changed(info: WorkerInfo, verb: Verb, id_: str) -> WorkerInfo:
    try:
        devices, _ = change(info.devices, checked_change(verb, [id_], vram=8 * ONE), info.given)
    except NotFound:
        return info
    return replace(info, devices=devices)


def _check_sums(running: list[Job]) -> None:
    """Per device the sum of what jobs hold is at most one, and of memory at most eight."""
    used: dict[tuple[str, str], int] = {}
    for job in running:
        assert job.placement is not None
        for name, held in job.placement.allocation.items():
            for device, amount in held.items() if isinstance(held, dict) else ():
                used[name, device] = used.get((name, device), 0) + amount
    for (name, device), amount in used.items():
        assert amount <= (ONE if name == "gpu" else 8 * ONE), (name, device, amount)
