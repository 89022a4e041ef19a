"""The agent keeps what a restored broker has no record of, and deletes what the broker removed."""

from __future__ import annotations

import errno

import pytest
from tests.builders import BOOT
from tests.worker import workbench as benches
from tests.worker.workbench import ACK, ALIVE, CHECK, DONE, ENDED, ME, RECORD, START, Bench

from grassq.core.messages import Forget, Start, Withdraw
from grassq.core.reconcile import RunState
from grassq.core.states import Lost, RefusedByWorker, Started
from grassq.worker import attempts
from grassq.worker.agent import ORDER_AGAIN_S, REPEAT_S

UNRECORDED = Withdraw(1, 1, BOOT, unrecorded=True)


def test_an_attempt_the_store_has_no_record_of_is_marked_and_runs_on() -> None:
    bench = Bench(ALIVE)
    assert bench.order(UNRECORDED) == [Started(1, 7)]
    assert bench.did() == [("unrecorded", ME), "void", "watch"]


def test_how_it_ended_is_told_until_it_is_acknowledged() -> None:
    bench = Bench(ENDED)
    assert bench.order(UNRECORDED) == [DONE] == bench.tick(REPEAT_S)
    bench.order(ACK)
    assert bench.tick(REPEAT_S) == [] and bench.runner.marked == [ME]


def test_what_nobody_has_started_never_is() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.order(UNRECORDED) == [RefusedByWorker(1, "withdrawn, to start earlier elsewhere")]


def test_a_mark_that_cannot_be_written_now_is_written_at_the_tick() -> None:
    bench = Bench(ENDED)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.order(UNRECORDED) == []
    bench.runner.trouble = None
    assert bench.tick(1.0) == [DONE] and ("unrecorded", ME) in bench.did()


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
    assert isinstance(bench.order(CHECK)[0], Lost), "a check is answered: the attempt is not here"


def test_only_so_many_forgotten_jobs_are_remembered_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FORGOTTEN_MAX", 2)
    bench = Bench()
    bench.order(Forget((1, 2)), Forget((3,)))
    bench.did()
    for job in (1, 2, 3):
        bench.order(Start(job, 1, START.spec, START.placement, ()))
    assert bench.did() == ["begin"], "job 1 is not remembered any more"
