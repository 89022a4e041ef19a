"""The agent on a disk or process table that cannot be read now."""

from __future__ import annotations

import errno

import pytest
from tests.builders import a_placement, a_spec
from tests.worker.workbench import (
    ALIVE,
    CHECK,
    DONE,
    ENDED,
    ME,
    RECORD,
    START,
    STOP,
    Bench,
)

from grassq.core.messages import Check, Start, Stop
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.core.states import RefusedByWorker, Started, Stuck
from grassq.run.rundir import Lease
from grassq.worker.agent import ORDER_AGAIN_S, REPEAT_S
from grassq.worker.attempts import RUNNING_LOOK_S


def _full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def test_a_run_dir_that_cannot_be_made_is_told_and_tried_again() -> None:
    bench = Bench()

    def full(start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        raise _full()

    begin, bench.runner.start = bench.runner.start, full  # type: ignore[method-assign]
    (stuck,) = bench.order(START)
    assert stuck == Stuck(1, "its run dir cannot be made: No space left on device")
    bench.runner.start = begin  # type: ignore[method-assign]
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == ["begin"]


def test_a_broker_that_repeats_its_order_does_not_keep_it_from_being_tried_again() -> None:
    bench = Bench()

    def full(start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        raise _full()

    begin, bench.runner.start = bench.runner.start, full  # type: ignore[method-assign]
    bench.order(START)
    bench.runner.start = begin  # type: ignore[method-assign]
    bench.tick(ORDER_AGAIN_S - 1)
    bench.order(START)
    assert bench.did() == ["begin"]


@pytest.mark.parametrize("order", [START, CHECK, STOP])
def test_an_order_that_cannot_be_done_now_is_done_at_the_tick(order: Start | Check | Stop) -> None:
    bench = Bench(ALIVE)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.order(order) == []
    assert bench.tick(1.0) == []
    bench.runner.trouble = None
    assert bench.tick(1.0)[0] == Started(1, 7)


def test_a_look_that_fails_concludes_nothing() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.hear("gone") == []
    assert bench.tick(RUNNING_LOOK_S) == []
    bench.runner.trouble, bench.runner.found = None, ENDED
    assert bench.tick(RUNNING_LOOK_S) == [DONE]


def test_one_attempt_that_cannot_be_looked_after_does_not_starve_the_others() -> None:
    bench = Bench()
    bench.order(START, Start(2, 1, a_spec(), a_placement("w"), ()))
    bench.did()

    def look(attempt: AttemptId) -> RunState:
        if attempt == ME:
            raise OSError(errno.EACCES, "Permission denied")
        return RunState()

    bench.runner.look = look  # type: ignore[method-assign]
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == ["begin"]


def test_one_shim_that_cannot_be_watched_does_not_keep_the_others_from_it() -> None:
    bench = Bench()
    bench.order(START, Start(2, 1, a_spec(), a_placement("w"), ()))
    bench.hear("started", pid=7)
    bench.hear("started", pid=8, job=2)
    bench.did()
    watched = []

    def watch(attempt: AttemptId) -> None:
        if attempt == ME:
            raise OSError(errno.EMFILE, "Too many open files")
        watched.append(attempt)

    bench.runner.watch = watch  # type: ignore[method-assign]
    bench.agent.watch_all()
    assert watched == [(2, 1)]


def test_an_order_put_off_is_kept_once_however_often_it_comes() -> None:
    bench = Bench(ALIVE)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    bench.order(*[CHECK] * 50)
    bench.runner.trouble = None
    assert bench.tick(1.0) == [Started(1, 7)]
    assert bench.tick(1.0) == []


def test_the_same_trouble_is_told_once_and_again_to_whoever_asks() -> None:
    bench = Bench()
    trouble = _full()

    def full(start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        raise trouble

    begin, bench.runner.start = bench.runner.start, full  # type: ignore[method-assign]
    first = bench.order(START)
    assert [bench.tick(ORDER_AGAIN_S) for _ in range(3)] == [[], [], []]
    assert bench.order(START) == first
    trouble = OSError(errno.EROFS, "Read-only file system")
    assert bench.tick(ORDER_AGAIN_S) == [Stuck(1, "its run dir cannot be made: Read-only file system")]
    bench.runner.start = begin  # type: ignore[method-assign]
    assert bench.tick(ORDER_AGAIN_S) == []
    assert bench.order(START) == [], "the trouble is over"


def test_an_end_is_not_followed_by_old_trouble() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.hear("stuck", pid=7)
    bench.hear("exited", record=RECORD)
    assert bench.tick(REPEAT_S) == [DONE]


def test_a_stop_of_an_attempt_whose_run_dir_cannot_be_made_ends_it() -> None:
    """No shim would ever find a stop file; and the broker, which repeats the stop, must not put the end off."""
    bench = Bench()

    def full(start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        raise _full()

    bench.runner.start = full  # type: ignore[method-assign]
    (stuck,) = bench.order(START)
    assert isinstance(stuck, Stuck)
    bench.runner.trouble = _full()
    assert bench.order(STOP) == []
    bench.runner.trouble = None
    assert RefusedByWorker(1, "given up before it started") in bench.tick(1.0)


def test_a_claim_that_cannot_be_written_is_told() -> None:
    bench = Bench()
    bench.order(START)
    told = bench.hear("claim_failed", error="No space left on device")
    assert told == [Stuck(1, "it cannot be claimed: No space left on device")]
    bench.did()
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == ["begin"]
