"""The agent suspends what runs, lets it go on, and reports each when it is done."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import BOOT
from tests.worker.workbench import ALIVE, CHECK, DONE, ENDED, NOBODY, ORPHAN, START, Bench

from grassq.core.messages import Check, SuspendOrder
from grassq.core.reconcile import RunState
from grassq.core.states import Lost, Started
from grassq.core.suspension.events import Resumed, Suspended, SuspendRefused, SuspensionOutdated

SUSPEND = SuspendOrder(1, 1, 5, True, BOOT)
RESUME = SuspendOrder(1, 1, 6, False, BOOT)


def test_what_runs_is_suspended_and_goes_on() -> None:
    bench = Bench(ALIVE)
    assert bench.order(CHECK) == [Started(1, 7)]
    assert bench.order(SUSPEND, SUSPEND) == [Suspended(1, 5), Suspended(1, 5)]
    assert bench.order(RESUME) == [Resumed(1, 6)]
    assert bench.runner.did == ["watch", ("suspend", 5), ("suspend", 5), ("resume", 6)]


def test_nothing_is_reported_before_it_is_done() -> None:
    bench = Bench(ALIVE)
    bench.runner.obeys = False
    bench.order(CHECK)
    assert bench.order(SUSPEND) == []
    bench.agent.heard({"event": "suspended", "job": 1, "attempt": 1, "shim": 9, "number": 5, "stop": True})
    assert bench.events() == [Suspended(1, 5)]
    bench.agent.heard({"event": "suspended", "job": 1, "attempt": 1, "shim": 9, "number": 6, "stop": False})
    assert bench.events() == [Resumed(1, 6)]


def test_a_shim_that_tells_nobody_is_looked_at_again_soon() -> None:
    bench = Bench(ALIVE)
    bench.order(CHECK)
    assert bench.agent.idle
    bench.runner.obeys = False
    bench.order(SUSPEND)
    assert not bench.agent.idle
    bench.agent.tick()
    bench.runner.obeys = True
    assert bench.events() == []
    bench.agent.tick()
    assert bench.events() == [Suspended(1, 5)] and bench.agent.idle


def test_a_new_worker_finds_what_it_is_to_suspend() -> None:
    bench = Bench(ORPHAN)
    assert Suspended(1, 5) in bench.order(SUSPEND), "also without a supervisor"
    bench.new_life()
    bench.runner.found = ENDED
    assert bench.order(SUSPEND) == [DONE]
    bench.new_life()
    bench.runner.found = NOBODY
    (lost,) = bench.order(SUSPEND)
    assert isinstance(lost, Lost)


def test_what_has_not_started_is_not_suspended() -> None:
    bench = Bench(RunState())
    bench.order(START)
    assert bench.order(SUSPEND) == [] and bench.runner.did == ["begin"]


def test_an_order_that_is_older_than_that_in_the_run_dir_is_reported() -> None:
    bench = Bench(replace(ALIVE, suspension=(9, True)))
    bench.runner.obeys = False
    assert SuspensionOutdated(1, 9) in bench.order(SUSPEND)


def test_a_refusal_is_reported_with_its_reason() -> None:
    bench = Bench(ALIVE)
    bench.runner.refusal = "its supervisor is old"
    bench.order(CHECK)
    assert bench.order(SUSPEND) == [SuspendRefused(1, 5, "its supervisor is old")]


def test_an_order_that_fails_for_a_moment_is_tried_again() -> None:
    bench = Bench(ALIVE)
    bench.order(CHECK)
    bench.runner.trouble = OSError(28, "No space left on device")
    assert bench.order(SUSPEND) == []
    bench.runner.trouble = None
    bench.agent.tick()
    assert bench.events() == [Suspended(1, 5)]


def test_what_a_restored_broker_believes_to_run_goes_on() -> None:
    suspended = replace(ALIVE, suspension=(5, True))
    bench = Bench(suspended)
    bench.order(Check(1, 1, BOOT, suspended=True))
    assert bench.runner.did == ["watch"]
    bench.order(CHECK)
    assert bench.runner.did == ["watch", ("resume", 6)]
    bench.order(CHECK)
    assert bench.runner.did == ["watch", ("resume", 6)], "once"
