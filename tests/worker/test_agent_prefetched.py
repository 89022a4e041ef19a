"""An attempt that comes after another: begun by that one's shim, or by order when it is over; never while it runs."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import BOOT
from tests.worker.workbench import ALIVE, CHECK, DONE, ME, RECORD, START, Bench

from grassq.core.messages import Start, Withdraw
from grassq.core.reconcile import RunState
from grassq.core.states import RefusedByWorker, Started
from grassq.worker.agent import ORDER_AGAIN_S

AFTER = Start(2, 1, START.spec, replace(START.placement, after=ME), ())
NOW = Start(2, 1, START.spec, START.placement, ())
BACK = Withdraw(2, 1, BOOT)


def test_its_order_is_left_with_the_one_that_runs() -> None:
    bench = Bench()
    bench.order(START, AFTER)
    assert bench.did() == ["begin", ("begin after", ME)]
    assert bench.hear("exited", record=RECORD, next=True) == [DONE]
    assert bench.did() == [], "the shim goes on by itself"


def test_it_is_ordered_when_the_other_ended_before_its_shim_knew_of_it() -> None:
    bench = Bench()
    bench.order(START, AFTER)
    bench.did()
    bench.hear("exited", record=RECORD)
    assert bench.did() == ["begin"]


def test_it_is_begun_at_once_when_the_other_is_over() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    bench.did()
    bench.order(AFTER)
    assert bench.did() == ["begin"]


def test_of_one_without_a_trace_it_waits_until_the_broker_says_that_it_is_over() -> None:
    bench = Bench()
    bench.order(AFTER)
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == [], "the other may be yet to come"
    bench.order(NOW)
    assert bench.did() == ["begin"]


def test_it_waits_for_one_that_an_earlier_life_began() -> None:
    bench = Bench(ALIVE)
    bench.order(CHECK)
    bench.runner.found = RunState()
    bench.order(AFTER)
    assert ("begin after", ME) in bench.did()


def test_it_is_given_up_when_the_broker_wants_it_back_unless_it_has_begun() -> None:
    bench = Bench()
    bench.order(START, AFTER)
    (refused,) = bench.order(BACK)
    assert isinstance(refused, RefusedByWorker) and not refused.final
    assert bench.order(BACK) == [refused], "said again until it is heard"
    bench = Bench()
    bench.order(START, AFTER)
    bench.hear("exited", record=RECORD, next=True)
    bench.agent.heard({"event": "started", "job": 2, "attempt": 1, "shim": 50, "pid": 77})
    assert bench.events() == [Started(1, 77)]
    assert bench.order(BACK) == []


def test_one_it_never_heard_of_is_given_up_too() -> None:
    (refused,) = Bench().order(BACK)
    assert isinstance(refused, RefusedByWorker)


def test_on_a_new_connection_nobody_begins_without_being_asked_again() -> None:
    bench = Bench()
    bench.order(START, AFTER)
    bench.did()
    bench.agent.hello()
    assert bench.did() == ["void"]
    bench.events()
    (refused,) = bench.order(AFTER)
    assert isinstance(refused, RefusedByWorker), "the broker, which asks for it again, places it anew"
