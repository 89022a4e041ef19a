"""Why a job waits, and why one never fits, in the planner's own words."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace
from tests.builders import (
    T0,
    a_board,
    a_job,
    a_placement,
    a_request,
    a_worker,
    an_offer,
    apply,
    detecting,
    finish,
)

from grassq.core.model import Constraints, Offer, State, WorkerInfo
from grassq.core.planner.explain import Blocker, Outlook, Turn, explain, never_fits
from grassq.core.planner.heads import Kept, ReservationPolicy
from grassq.core.planner.plan import plan
from grassq.core.resources.amounts import ONE

QUEUES = ("a", "b", "c")
AT_ONCE = ReservationPolicy(0, 0.0)


def test_explain_names_what_is_short_and_who_holds_it() -> None:
    board = a_board(a_worker(gpu=1), jobs=[a_job(1, gpu=0.75), a_job(2, gpu=0.5)])
    apply(board, plan(board, T0))
    (blocker,) = explain(board, board.jobs[2], T0)
    assert blocker == Blocker("w", "gpu", ONE // 2, ONE // 4, "0.5 gpu needed, 0.25 free", (1,))


def test_explain_of_memory_names_those_who_hold_memory_else_those_on_the_devices() -> None:
    gpus = {"0": {"vram": 8}}
    board = a_board(a_worker(gpu=gpus), jobs=[a_job(1, vram=6), a_job(2, gpu=0.5), a_job(3, vram=4)])
    apply(board, plan(board, T0))
    assert [(b.resource, b.holders) for b in explain(board, board.jobs[3], T0)] == [("vram", (1,))]
    board = a_board(a_worker(gpu=gpus), jobs=[a_job(1, gpu=1), a_job(3, vram=4)])
    apply(board, plan(board, T0))
    assert [(b.resource, b.holders) for b in explain(board, board.jobs[3], T0)] == [("vram", (1,))]


def test_a_device_whose_memory_is_held_is_not_free_for_a_job_that_wants_it_whole() -> None:
    board = a_board(a_worker(gpu={"0": {"vram": 8}}), jobs=[a_job(1, vram=6), a_job(2, gpu=1)])
    apply(board, plan(board, T0))
    (blocker,) = explain(board, board.jobs[2], T0)
    assert blocker == Blocker("w", "gpu", ONE, 0, "1 gpu needed, 0 free", (1,))


def test_explain_names_a_worker_out_of_touch_and_a_head_that_keeps_room() -> None:
    board = a_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3), a_job(2, cpu=4)], patience=AT_ONCE)
    apply(board, plan(board, T0))
    board.put(a_job(3, cpu=1))
    board.set_worker(a_worker("v", cpu=4), online=False, now=T0)
    away, kept = explain(board, board.jobs[3], T0)
    assert away == Blocker("v", "worker", 0, 0, "worker v is out of touch", ())
    assert (kept.worker, kept.resource, kept.needed, kept.free) == ("w", "cpu", ONE, 0)
    assert kept.why == "cpu is free but kept for job 2, which has waited longer"
    board.workers["v"].online = True
    assert explain(board, board.jobs[3], T0) == []


def test_explain_names_those_heads_alone_that_keep_something_from_the_job() -> None:
    workers = [a_worker("v", offers=[Offer("x")], cpu=4), a_worker(offers=[Offer(q) for q in QUEUES], cpu=4)]
    jobs = [a_job(1, "x", cpu=3), a_job(2, "x", cpu=4), a_job(3, "a", cpu=3)]
    heads = [a_job(4, "a", cpu=4), a_job(5, "b", cpu=2), a_job(6, "c", cpu=4)]
    board = a_board(*workers, jobs=[*jobs, *heads], patience=AT_ONCE)
    apply(board, plan(board, T0))
    assert {head.job for head in board.heads.values()} == {2, 4, 5, 6}
    finish(board, 3)
    board.put(a_job(3, "a", state=State.RUNNING, placement=a_placement("w", {"cpu": 2 * ONE})))
    (blocker,) = explain(board, board.jobs[5], T0)
    assert blocker.why == "cpu is free but kept for job 4, which has waited longer"


def test_explain_names_the_jobs_of_higher_priority_that_keep_room() -> None:
    board = a_board(a_worker(cpu=8), jobs=[a_job(1, cpu=7)])
    apply(board, plan(board, T0))
    board.put(a_job(2, cpu=2, priority=50))
    board.put(a_job(3, cpu=1))
    (blocker,) = explain(board, board.jobs[3], T0)
    assert blocker.why == "cpu is free but kept for job 2, which has a higher priority"
    for job_id in (4, 5, 6):
        board.put(a_job(job_id, cpu=2, priority=50))
    (blocker,) = explain(board, board.jobs[3], T0)
    assert blocker.why == "cpu is free but kept for job 2, job 4, job 5 and 1 more, which have a higher priority"


def test_a_turn_tells_how_often_the_head_was_passed_and_until_when() -> None:
    board = a_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3), a_job(2, cpu=4)], patience=ReservationPolicy(2, 60.0))
    apply(board, plan(board, T0))
    assert Outlook(board, T0).turn(board.jobs[2]) == Turn(0, 0, passed=0, ripe_at=T0 + 60)
    board.put(a_job(3, cpu=1))
    apply(board, plan(board, T0 + 5))
    board.put(a_job(4, cpu=2, priority=50))
    board.put(a_job(5, cpu=3))
    outlook = Outlook(board, T0 + 6)
    assert outlook.turn(board.jobs[2]) == Turn(1, 0, passed=1, ripe_at=T0 + 60)
    assert outlook.turn(board.jobs[5]) == Turn(1, 1)


def test_a_turn_tells_on_which_worker_room_is_kept_and_since_when() -> None:
    board = a_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3)], patience=ReservationPolicy(64, 60.0))
    apply(board, plan(board, T0))
    board.put(a_job(2, cpu=4, priority=50))
    board.put(a_job(3, cpu=1))
    for now in (T0 + 1, T0 + 2):
        apply(board, plan(board, now))
    kept = Kept("w", T0 + 1)
    assert Outlook(board, T0 + 9).turn(board.jobs[2]) == Turn(0, 0, 0, T0 + 61, kept)
    assert Outlook(board, T0 + 61).turn(board.jobs[2]) == Turn(0, 0, 0, T0 + 61, kept, is_ripe=True)


def test_what_never_fits_is_said_worker_by_worker() -> None:
    board = a_board(a_worker("a", gpu=2), a_worker("b", cpu=1))
    assert never_fits(board, "default", a_request(gpu=2)) is None
    assert never_fits(board, "default", a_request(gpu=3)) == (
        "3 gpu asked, queue 'default' on a has 2; 3 gpu asked, queue 'default' on b has none"
    )
    assert never_fits(board, "nobody's", a_request(gpu=3)) is None


def test_a_device_that_may_yet_be_found_is_waited_for() -> None:
    board = a_board(detecting(a_worker(cpu=2)))
    assert never_fits(board, "default", a_request(gpu=3)) is None
    assert never_fits(board, "default", a_request(vram=3)) is None
    assert never_fits(board, "default", a_request(cpu=3)) is not None
    limited = a_board(detecting(a_worker(offers=[an_offer("a", gpu=2)], cpu=2)))
    assert never_fits(limited, "a", a_request(gpu=2)) is None
    assert never_fits(limited, "a", a_request(gpu=3)) == "3 gpu asked, queue 'a' on w has 2"


def test_explain_says_that_devices_are_still_being_looked_for() -> None:
    looking = "devices are still being looked for"
    board = a_board(
        detecting(a_worker(cpu=2)),
        jobs=[a_job(1, gpu=1), a_job(2, vram=1), a_job(3, cpu=3)],
    )
    assert explain(board, board.jobs[1], T0) == [Blocker("w", "gpu", ONE, 0, looking)]
    assert explain(board, board.jobs[2], T0) == [Blocker("w", "vram", ONE, 0, looking)]
    assert [blocker.why for blocker in explain(board, board.jobs[3], T0)] == ["3 cpu needed, 2 free"]
    given = detecting(a_worker(gpu={"0": {"vram": 4}}))
    board = a_board(given, jobs=[a_job(1, vram=3), a_job(2, vram=2)])
    apply(board, plan(board, T0))
    assert [blocker.holders for blocker in explain(board, board.jobs[2], T0)] == [(1,)]
    board.set_worker(a_worker(cpu=2), online=True, now=T0)
    assert [blocker.why for blocker in explain(board, board.jobs[2], T0)] != [looking]


def test_explain_speaks_of_the_worker_that_was_asked_for_alone() -> None:
    board = a_board(a_worker("a", cpu=1), a_worker("b", cpu=1))
    board.workers["a"].drained = True
    plain = a_job(1, cpu=1)
    asking = replace(plain, spec=replace(plain.spec, constraints=Constraints(worker="a")))
    told = explain(board, asking, T0)
    assert [(blocker.worker, "grass drain --undo a" in blocker.why) for blocker in told] == [("a", True)]
    board.lose_touch("a", T0, T0)
    told = explain(board, asking, T0)
    assert [blocker.why for blocker in told] == ["worker a is out of touch"]


def test_of_a_worker_that_still_looks_only_what_may_appear_is_waited_for() -> None:
    named = a_board(detecting(a_worker(cpu=2), "gpu", "tape"))
    assert never_fits(named, "default", a_request(tape=1)) is None
    assert never_fits(named, "default", a_request(vram=1)) is None
    assert never_fits(named, "default", a_request(printer=1)) is not None
    unnamed = a_board(replace(a_worker(cpu=2), looked_for=True))
    assert never_fits(unnamed, "default", a_request(printer=1)) is None


def test_a_worker_stored_by_the_first_releases_says_only_whether_it_looks() -> None:
    old = msgspec.msgpack.encode({"name": "w", "boot": "b", "given": {}, "detecting": True})
    assert msgspec.msgpack.decode(old, type=WorkerInfo).detecting == {"gpu"}
    old = msgspec.msgpack.encode({"name": "w", "boot": "b", "given": {}, "detecting": False})
    assert msgspec.msgpack.decode(old, type=WorkerInfo) == WorkerInfo("w", "b", {}, looked_for=False)
    new = detecting(a_worker(cpu=2), "tape")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=WorkerInfo) == new


def test_explain_names_only_holders_of_devices_that_the_queue_may_use() -> None:
    both = a_worker(offers=[an_offer("k", gpu=2)], gpu=2)
    board = a_board(both, jobs=[a_job(1, "k", gpu=1), a_job(2, "k", gpu=1)])
    apply(board, plan(board, T0))
    board.set_worker(a_worker(offers=[an_offer("k", gpu=["1"])], gpu=2), online=True, now=T0)
    board.put(a_job(3, "k", gpu=1))
    (blocker,) = explain(board, board.jobs[3], T0)
    [holder] = [job.id for job in board.held_by("w") if "1" in job.placement.allocation["gpu"]]  # type: ignore
    assert blocker.holders == (holder,)


def test_explain_of_a_limit_that_is_used_up_names_only_jobs_of_the_queue() -> None:
    worker = a_worker(offers=[an_offer("k", cpu=2), Offer("x")], cpu=8)
    board = a_board(worker, jobs=[a_job(1, "x", cpu=3), a_job(2, "k", cpu=2), a_job(3, "k", cpu=1)])
    apply(board, plan(board, T0))
    assert [blocker.holders for blocker in explain(board, board.jobs[3], T0)] == [(2,)]
    board = a_board(worker, jobs=[a_job(1, "x", cpu=7), a_job(2, "k", cpu=1), a_job(3, "k", cpu=1)])
    apply(board, plan(board, T0))
    assert [blocker.holders for blocker in explain(board, board.jobs[3], T0)] == [(1, 2)]
