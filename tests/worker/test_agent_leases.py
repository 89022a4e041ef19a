"""The agent and leases: what may be started elsewhere runs here only while the broker answers."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import BOOT
from tests.worker.workbench import ALIVE, CHECK, DONE, ENDED, ORPHAN, RECORD, START, Bench

from grassq.core.messages import Ack, Start, Stop
from grassq.core.model import Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Lost, RefusedByWorker, Started, Stuck
from grassq.run.rundir import Lease
from grassq.worker.agent import ORDER_AGAIN_S, ORPHAN_LOOK_S
from grassq.worker.attempts import exited
from grassq.worker.leases import LEASE_PART

LENGTH = 100.0
PART = LEASE_PART * LENGTH
LEASED = replace(START, placement=replace(START.placement, lease_s=LENGTH))


def a_bench(found: RunState | None = None, *, confirmed: float | None = 0.0) -> Bench:
    bench = Bench(found)
    if confirmed is not None:
        bench.agent.confirmed(confirmed)
    return bench


def test_a_lease_counts_from_the_ping_and_not_from_its_answer() -> None:
    bench = a_bench(confirmed=None)
    bench.now = 8.0
    bench.agent.confirmed(5.0)
    bench.order(LEASED)
    assert bench.did() == [("begin", Lease(5.0 + PART, LENGTH))]


def test_a_start_without_a_lease_needs_no_answer_of_the_broker() -> None:
    bench = a_bench(confirmed=None)
    bench.order(START)
    assert bench.did() == ["begin"]


@pytest.mark.parametrize("silent_s", [None, PART, PART + 1, 10 * LENGTH])
def test_a_start_whose_lease_would_be_over_is_not_begun_until_it_comes_again(silent_s: float | None) -> None:
    bench = a_bench(confirmed=None if silent_s is None else 0.0)
    bench.now = silent_s or 0.0
    assert bench.order(LEASED) == [] and bench.did() == []
    assert bench.tick(ORDER_AGAIN_S) == [] and bench.did() == []
    bench.agent.confirmed(bench.now)
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == [], "only the broker knows whether it is still wanted"
    bench.order(LEASED)
    assert bench.did() == [("begin", Lease(bench.now - ORDER_AGAIN_S + PART, LENGTH))]


def test_an_answered_ping_renews_the_lease_of_what_runs() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.hear("started", pid=7)
    bench.did()
    bench.now = 21.0
    bench.agent.confirmed(20.0)
    assert bench.did() == [("lease", Lease(20.0 + PART, LENGTH))]


def test_a_lease_is_written_only_when_that_changes_much() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.did()
    written = []
    for second in range(1, 51):
        bench.now = float(second)
        bench.agent.confirmed(bench.now)
        written += bench.did()
    assert [what[1].until - PART for what in written] == [10.0, 20.0, 30.0, 40.0, 50.0]


def test_an_answer_that_comes_late_or_twice_shortens_nothing() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.did()
    bench.now = 40.0
    bench.agent.confirmed(40.0)
    bench.did()
    for at in (40.0, 10.0, -5.0):
        bench.agent.confirmed(at)
    assert bench.did() == []


def test_an_answer_to_what_was_never_asked_lengthens_nothing() -> None:
    bench = a_bench()
    bench.now = 20.0
    bench.agent.confirmed(1e9)
    bench.order(LEASED)
    assert bench.did() == [("begin", Lease(20.0 + PART, LENGTH))]


def test_a_lease_that_was_over_when_the_broker_was_asked_again_is_never_renewed() -> None:
    """The broker may have started the job elsewhere in between."""
    bench = a_bench()
    bench.order(LEASED)
    bench.hear("started", pid=7)
    bench.did()
    bench.now = PART + 1
    bench.agent.confirmed(PART + 1)
    bench.now = PART + 30
    bench.agent.confirmed(PART + 30)
    assert bench.did() == []


def test_an_order_nobody_took_before_its_lease_was_over_is_not_given_again() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.did()
    bench.now = PART
    bench.agent.hello()
    bench.agent.confirmed(bench.now)
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == []
    bench.order(LEASED)
    assert bench.did() == [("begin", Lease(PART + PART, LENGTH))]


def test_an_order_somebody_took_before_its_lease_was_over_is_heard_of() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.runner.found = replace(ENDED, exit=Lost(1, Outcome.LOST, "over"))
    bench.events()
    bench.now = PART
    assert bench.tick(ORDER_AGAIN_S) == [Lost(1, Outcome.LOST, "over")]


def test_an_order_repeated_while_its_lease_lasts_carries_the_lease() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == [("begin", Lease(PART, LENGTH))] * 2


def test_a_start_put_off_before_a_new_connection_is_not_done_after_it() -> None:
    bench = a_bench()
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    bench.order(LEASED)
    bench.now = 10 * LENGTH
    bench.runner.trouble = None
    bench.agent.hello()
    bench.agent.confirmed(bench.now)
    bench.tick(1.0)
    assert bench.did() == []


def test_a_lease_that_cannot_be_written_is_written_at_the_next_answer() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.did()
    bench.runner.trouble = OSError(errno.ENOSPC, "No space left on device")
    bench.now = 20.0
    bench.agent.confirmed(20.0)
    bench.runner.trouble = None
    bench.now = 25.0
    bench.agent.confirmed(25.0)
    assert bench.did() == [("lease", Lease(25.0 + PART, LENGTH))]


def test_an_adopted_attempt_goes_on_with_the_lease_in_its_run_dir() -> None:
    bench = a_bench(ALIVE, confirmed=None)
    bench.runner.lease_found = Lease(50.0, LENGTH)
    bench.order(CHECK)
    bench.now = 40.0
    bench.agent.confirmed(40.0)
    assert bench.did() == ["watch", ("lease", Lease(40.0 + PART, LENGTH))]


def test_what_has_ended_has_no_lease_any_more() -> None:
    bench = a_bench()
    bench.order(LEASED)
    bench.hear("exited", record=RECORD)
    bench.did()
    bench.now = 50.0
    bench.agent.confirmed(50.0)
    assert bench.did() == []


def test_a_leased_attempt_without_its_supervisor_is_ended_at_once() -> None:
    """Nobody would end it when its lease is over, and its exit code is lost anyway."""
    bench = a_bench(ORPHAN)
    bench.runner.lease_found = Lease(PART, LENGTH)
    assert [type(event) for event in bench.order(CHECK)] == [Started, Stuck]
    assert bench.did() == ["term"]
    bench.tick(ORPHAN_LOOK_S)
    assert bench.did() == ["term"]
    bench.tick(10.0)
    assert bench.did() == ["kill"]


def test_an_unleased_attempt_without_its_supervisor_runs_on() -> None:
    bench = a_bench(ORPHAN)
    bench.order(CHECK)
    bench.tick(ORPHAN_LOOK_S)
    assert bench.did() == []


def test_a_stop_and_an_acknowledgement_need_no_lease() -> None:
    bench = a_bench(confirmed=None)
    assert isinstance(bench.order(Stop(1, 1, 0.0, BOOT))[0], RefusedByWorker)
    bench.order(Ack(1, 1))
    assert bench.agent.idle


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"code": None, "signal": 15},
            Lost(1, Outcome.LOST, "its lease ended while the broker was out of reach", lease_ended=True),
        ),
        (
            {"code": 0, "signal": None},
            Lost(1, Outcome.LOST, "its lease ended while the broker was out of reach", lease_ended=True),
        ),
        ({"code": None, "signal": None}, RefusedByWorker(1, "its lease was over before it started")),
    ],
)
def test_an_ended_lease_is_lost_or_if_nothing_ran_refused(record: dict[str, Any], expected: object) -> None:
    assert exited(1, {**RECORD, "outcome": "lease_ended", **record}) == expected


def test_a_start_of_what_runs_under_a_lease_is_answered_also_before_the_broker_was_heard() -> None:
    bench = a_bench(ALIVE, confirmed=None)
    assert bench.order(LEASED) == [Started(1, 7)]
    assert a_bench(ENDED, confirmed=None).order(LEASED) == [DONE]


def test_leases_of_different_lengths_each_have_their_own_end() -> None:
    bench = a_bench()
    other: Start = replace(LEASED, job=2, placement=replace(LEASED.placement, lease_s=10.0))
    bench.order(LEASED, other)
    assert [what[1].until for what in bench.did()] == [PART, 10.0 * LEASE_PART]
