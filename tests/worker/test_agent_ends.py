"""The agent and what ends: stops, and shims that go."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import BOOT, a_placement, a_spec
from tests.worker.workbench import (
    ACK,
    ALIVE,
    CHECK,
    DONE,
    ENDED,
    ME,
    NOBODY,
    ORPHAN,
    RECORD,
    START,
    STOP,
    UNSPAWNED,
    Bench,
)

from grassq.core.messages import Start, Stop
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Lost, RefusedByWorker, Started, Stuck
from grassq.worker.agent import COLLECTING_LOOK_S, ORPHAN_LOOK_S
from grassq.worker.attempts import RUNNING_LOOK_S, RUNNING_LOOKS_MAX

# Stopping.


def test_a_stop_before_the_start_means_it_never_starts() -> None:
    bench = Bench()
    refused = bench.order(STOP)[0]
    assert isinstance(refused, RefusedByWorker) and bench.did() == ["void"]
    assert bench.order(START) == [refused]
    bench.order(ACK)
    assert isinstance(bench.order(START)[0], RefusedByWorker)
    assert bench.did() == []


def test_a_stop_while_ordered_gives_the_attempt_up_also_while_its_files_are_on_their_way() -> None:
    bench = Bench()
    assert bench.order(START, STOP) == [RefusedByWorker(1, "given up before it started")]
    assert bench.did() == ["begin", "void"]
    assert bench.hear("duplicate") == []


def test_a_stop_of_an_order_that_a_shim_has_claimed_is_left_for_the_shim_and_said_again_when_it_starts() -> None:
    bench = Bench()
    bench.order(START)
    bench.runner.found = UNSPAWNED
    bench.order(STOP)
    assert bench.did() == ["begin", "void", ("stop", 10.0)]
    bench.hear("started", pid=9)
    assert bench.did() == [("stop", 10.0)]
    bench.hear("exited", record={**RECORD, "outcome": "cancelled", "code": None, "signal": 15})


def test_an_attempt_whose_files_cannot_be_brought_fails_with_the_reason() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("refused", why="the disk there is too full") == [
        Stuck(1, "the disk there is too full"),
        RefusedByWorker(1, "the disk there is too full", final=True),
    ]
    assert bench.did() == ["begin", "void"]


def test_a_stop_of_what_runs_unknown_to_us_adopts_it_first() -> None:
    bench = Bench(ALIVE)
    assert bench.order(STOP) == [Started(1, 7), Started(1, 7)]
    assert bench.did() == ["void", "watch", ("stop", 10.0)]


def test_a_stop_of_an_earlier_boot_voids_nothing() -> None:
    bench = Bench()
    events = bench.order(Stop(1, 1, 10.0, "boot-0"))
    assert {type(event) for event in events} == {Lost} and bench.did() == []


def test_an_orphan_gets_term_and_after_the_grace_kill() -> None:
    bench = Bench(ORPHAN)
    bench.order(CHECK)
    bench.order(STOP)
    assert bench.did() == ["term"]
    bench.tick(ORPHAN_LOOK_S)
    assert bench.did() == ["term"]
    bench.tick(10.0)
    assert bench.did() == ["kill"]
    bench.runner.found = NOBODY
    (lost,) = bench.tick(ORPHAN_LOOK_S)
    assert isinstance(lost, Lost) and lost.outcome is Outcome.UNKNOWN


def test_a_new_grace_counts_from_when_it_was_asked() -> None:
    bench = Bench(ORPHAN)
    bench.order(CHECK, STOP)
    bench.did()
    bench.now = 1.0
    bench.order(Stop(1, 1, 0.0, BOOT))
    assert bench.did() == ["kill"]


# Shims that go.


@pytest.mark.parametrize(
    ("found", "expected"),
    [(ENDED, [DONE]), (NOBODY, [Lost]), (ORPHAN, [Started, Stuck])],
    ids=["with a record", "with nobody", "with the command alive"],
)
@pytest.mark.parametrize("how", ["the launcher says so", "its pidfd says so"])
def test_when_a_shim_is_gone_what_it_left_decides(found: RunState, expected: list[Any], how: str) -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = found
    if how == "its pidfd says so":
        bench.agent.shim_gone(ME)
        events = bench.events()
    else:
        events = bench.hear("gone")
    assert [event if event in expected else type(event) for event in events] == expected


def test_a_shim_whose_end_nobody_tells_is_found_out_by_looking() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = NOBODY
    assert bench.tick(RUNNING_LOOK_S - 0.1) == []
    (lost,) = bench.tick(0.1)
    assert isinstance(lost, Lost)


def test_being_asked_again_and_again_does_not_put_the_look_off() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = NOBODY
    for _ in range(5):
        bench.now += RUNNING_LOOK_S / 5
        bench.order(STOP)
    assert isinstance(bench.tick(0.0)[0], Lost)


def test_a_running_attempt_whose_run_dir_vanished_is_never_started_again() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = RunState()
    (lost,) = bench.hear("gone")
    assert isinstance(lost, Lost)
    bench.tick(60)
    assert bench.did() == ["begin"]


def test_when_the_launcher_died_running_shims_are_watched_directly() -> None:
    bench = Bench()
    bench.order(START)
    bench.agent.watch_all()
    assert bench.did() == ["begin"]
    bench.hear("started", pid=7)
    bench.agent.watch_all()
    assert bench.did() == ["watch"]


def test_a_shim_of_an_earlier_launcher_is_watched_directly() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7, stray=False)
    assert bench.did() == ["begin"]
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7, stray=True)
    assert bench.did() == ["begin", "watch"]


def test_what_was_over_at_once_is_told_as_its_end_alone() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("exited", pid=7, record=RECORD) == [DONE]
    bench.order(ACK)
    assert bench.tick(60) == []


MANY = 10 * RUNNING_LOOKS_MAX


def test_of_many_that_run_and_are_watched_few_are_looked_at_in_a_tick_and_all_in_turn() -> None:
    bench, looks = with_many_running()
    for _ in range(MANY // RUNNING_LOOKS_MAX):
        bench.tick(RUNNING_LOOK_S)
    assert sorted(looks) == [(job, 1) for job in range(1, MANY + 1)]


def test_of_many_that_run_unwatched_each_is_looked_at() -> None:
    bench, looks = with_many_running()
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    bench.agent.watch_all()
    bench.runner.trouble = None
    bench.tick(RUNNING_LOOK_S)
    assert len(looks) == MANY


def with_many_running() -> tuple[Bench, list[AttemptId]]:
    bench = Bench()
    for job in range(1, MANY + 1):
        bench.order(Start(job, 1, a_spec(), a_placement("w"), ()))
        bench.hear("started", pid=7, job=job)
    looks: list[AttemptId] = []

    def look(attempt: AttemptId) -> RunState:
        looks.append(attempt)
        return ALIVE

    bench.runner.look = look  # type: ignore[method-assign]
    return bench, looks


def test_a_stuck_attempt_says_so_each_time_it_is_asked() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    first = bench.hear("stuck", pid=7)
    assert [type(event) for event in first] == [Started, Stuck]
    assert bench.order(CHECK) == first


# Files of an attempt that has ended.


def test_an_end_is_told_when_its_files_are_there() -> None:
    bench = Bench(ALIVE)
    bench.order(START)
    bench.events()
    bench.runner.found, bench.runner.collected = ENDED, lambda end: None
    bench.agent.shim_gone(ME)
    assert bench.events() == []
    assert bench.order(CHECK) == [Started(1, 7)], "it still runs for the broker"
    bench.runner.collected = lambda end: replace(end, error="not fetched")
    bench.agent.shim_gone(ME)
    assert bench.events() == [replace(DONE, error="not fetched")]


def test_an_end_whose_files_came_without_a_word_is_found() -> None:
    bench = Bench(ALIVE)
    bench.order(START)
    bench.runner.found, bench.runner.collected = ENDED, lambda end: None
    bench.agent.shim_gone(ME)
    bench.events()
    bench.runner.collected = lambda end: end
    assert bench.tick(COLLECTING_LOOK_S) == [DONE]


def test_a_new_daemon_collects_the_files_of_an_attempt_that_ended_before() -> None:
    bench = Bench(ENDED)
    bench.runner.collected = lambda end: None
    assert bench.order(CHECK) == []
    bench.runner.collected = lambda end: end
    bench.agent.shim_gone(ME)
    assert bench.events() == [DONE]


def test_files_that_cannot_be_looked_for_now_are_collected_later() -> None:
    bench = Bench(ALIVE)
    bench.order(START)
    bench.events()
    bench.runner.found, bench.runner.trouble = ENDED, OSError(errno.EIO, "bad disk")
    bench.agent.shim_gone(ME)
    assert bench.events() == []
    bench.runner.trouble = None
    assert bench.tick(RUNNING_LOOK_S) == [DONE]
