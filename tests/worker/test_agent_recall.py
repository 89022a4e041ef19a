"""The agent tells a broker what it has forgotten, and forgets what the broker removed."""

from __future__ import annotations

import errno

import pytest
from tests.worker import workbench as benches
from tests.worker.workbench import ACK, ALIVE, CHECK, DONE, ENDED, ME, NOBODY, OLD_START, RECORD, START, Bench

from grassq.core.messages import Forget, Recall, Recalled, Start
from grassq.core.reconcile import RunState
from grassq.core.states import Lost, Started
from grassq.worker import attempts
from grassq.worker.agent import ORDER_AGAIN_S, REPEAT_S

RECALL = Recall(1, 1)


def with_order(found: RunState, start: Start = START) -> Bench:
    bench = Bench(found)
    bench.runner.orders[ME] = start
    return bench


def test_a_recall_is_answered_with_the_order_and_then_how_it_stands() -> None:
    assert with_order(ALIVE).order(RECALL) == [Recalled(START), Started(1, 7)]
    assert with_order(ENDED).order(RECALL) == [Recalled(START), DONE]
    recalled, lost = with_order(NOBODY).order(RECALL)
    assert recalled == Recalled(START) and isinstance(lost, Lost)


def test_a_recall_of_what_began_before_a_reboot_says_that_it_is_lost() -> None:
    recalled, lost = with_order(ALIVE, OLD_START).order(RECALL)
    assert recalled == Recalled(OLD_START) and isinstance(lost, Lost)


def test_a_recall_of_what_nobody_claimed_leaves_it_to_the_broker_to_start_it() -> None:
    bench = with_order(RunState())
    assert bench.order(RECALL) == [Recalled(START)]
    assert bench.tick(60.0) == [] and bench.did() == []
    bench.order(START)
    assert bench.did() == ["begin"]


def test_a_recall_of_what_is_held_says_how_it_stands() -> None:
    bench = with_order(RunState())
    bench.order(START)
    bench.hear("started", pid=9)
    assert bench.order(RECALL, RECALL) == [Recalled(START), Started(1, 9)] * 2
    assert bench.did() == ["begin"]


def test_a_recall_of_what_cannot_be_told_is_answered_with_nothing() -> None:
    bench = Bench(ENDED)
    assert bench.order(RECALL) == [] and bench.did() == []


def test_a_recall_that_cannot_be_answered_now_is_answered_at_the_tick() -> None:
    bench = with_order(ENDED)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.order(RECALL) == []
    bench.runner.trouble = None
    assert bench.tick(1.0) == [Recalled(START), DONE]


def test_removed_jobs_are_forgotten_and_their_checkpoints_spared() -> None:
    bench = Bench()
    bench.order(Forget((1, 2, 3), (2,)))
    assert bench.did() == [("forget", [1, 2, 3], [2])]


@pytest.mark.parametrize("found", [RunState(), ALIVE, benches.ORPHAN], ids=["ordered", "running", "orphaned"])
def test_what_has_not_ended_is_never_forgotten(found: RunState) -> None:
    bench = Bench(found)
    bench.order(START)
    bench.did()
    bench.order(Forget((1, 2)))
    assert bench.did() == [("forget", [2], [])]
    bench.runner.found = ENDED
    bench.agent.shim_gone(ME)
    assert DONE in bench.events()


def test_an_end_of_a_forgotten_job_is_not_told_any_more() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    bench.order(Forget((1,)))
    assert bench.tick(REPEAT_S) == [] and bench.agent.idle


def test_a_late_start_of_a_forgotten_job_starts_nothing() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    bench.order(ACK, Forget((1,)))
    bench.did()
    bench.runner.found = RunState()
    assert bench.order(START) == [] and bench.tick(ORDER_AGAIN_S) == []
    assert bench.did() == []
    assert isinstance(bench.order(CHECK)[0], Lost), "whoever asks is told that it is not here"


def test_only_so_many_forgotten_jobs_are_remembered_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FORGOTTEN_MAX", 2)
    bench = Bench()
    bench.order(Forget((1, 2)), Forget((3,)))
    bench.did()
    for job in (1, 2, 3):
        bench.order(Start(job, 1, START.spec, START.placement, ()))
    assert bench.did() == ["begin"], "job 1 is not remembered any more"
