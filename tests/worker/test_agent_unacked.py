"""The agent's outbox: what an earlier life left is told unasked, a little at a time, until it is acknowledged."""

from __future__ import annotations

import errno

from tests.builders import a_worker
from tests.worker.workbench import ACK, ALIVE, DONE, ENDED, ME, NOBODY, ORPHAN, RECORD, START, VOID, Bench

from grassq.core.messages import Ack, Hello, Report
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.core.states import Started, Stuck
from grassq.worker.agent import HELD_MAX, LOOKS_S, REPEAT_S, UNTOLD_MAX
from grassq.worker.attempts import LOOKS_MAX


def connected(found: RunState, *left: AttemptId) -> Bench:
    """A worker that has just started and connected, with these run dirs."""
    bench = Bench(found)
    bench.runner.left = list(left)
    bench.agent.hello()
    bench.said.clear()
    return bench


def test_an_acknowledged_end_is_marked() -> None:
    bench = Bench()
    bench.order(START, ACK)
    assert bench.runner.marked == [], "it has not ended"
    bench.hear("exited", record=RECORD)
    bench.order(ACK)
    assert bench.runner.marked == [ME]


def test_an_acknowledgement_that_comes_twice_is_marked_again_and_does_nothing_else() -> None:
    bench = Bench()
    assert bench.order(ACK, ACK) == [] and bench.did() == [] and bench.agent.idle
    assert bench.runner.marked == [ME, ME]


def test_a_fresh_hello_says_what_is_here() -> None:
    bench = Bench()
    bench.runner.left = [(9, 2), (9, 1), (3, 1)]
    bench.agent.hello()
    assert bench.said == [Hello(a_worker(), True, ((9, 2), (9, 1), (3, 1)))]
    bench.said.clear()
    bench.agent.hello(fresh=False)
    assert bench.said == [Hello(a_worker(), False)]


def test_a_hello_names_a_bounded_number_of_attempts() -> None:
    bench = Bench()
    bench.runner.left = [(job, 1) for job in range(HELD_MAX + 5, 0, -1)]
    bench.agent.hello()
    (hello,) = bench.said
    assert isinstance(hello, Hello)
    assert len(hello.held) == HELD_MAX and hello.held[0] == (HELD_MAX + 5, 1)


def test_an_end_of_an_earlier_life_is_told_unasked_until_it_is_acknowledged() -> None:
    bench = connected(ENDED, ME)
    assert not bench.agent.idle
    assert bench.tick(1.0) == [DONE]
    assert bench.tick(REPEAT_S) == [DONE]
    bench.order(ACK)
    assert bench.runner.marked == [ME]
    assert bench.tick(REPEAT_S) == [] and bench.agent.idle


def test_what_an_earlier_life_started_and_still_runs_is_adopted() -> None:
    bench = connected(ALIVE, ME)
    assert bench.tick(1.0) == [Started(1, 7)] and bench.did() == ["watch"]
    bench = connected(ORPHAN, ME)
    assert [type(event) for event in bench.tick(1.0)] == [Started, Stuck]


def test_about_what_is_neither_ended_nor_alive_nothing_is_said_unasked() -> None:
    """Only the broker knows in which boot it was placed, and whether it is still wanted."""
    for found in (RunState(), NOBODY, VOID):
        bench = connected(found, ME)
        assert bench.tick(1.0) == [] and bench.agent.idle and bench.did() == []


def test_the_outbox_is_looked_through_once_in_a_life() -> None:
    bench = connected(ENDED, ME)
    bench.tick(1.0)
    bench.order(ACK)
    bench.agent.hello()
    bench.events()
    assert bench.tick(REPEAT_S) == []


def test_nothing_is_told_twice_that_the_broker_asked_for_first() -> None:
    bench = connected(ENDED, ME)
    assert bench.order(START) == [DONE]
    assert bench.tick(1.0) == []


def test_a_long_outbox_is_told_in_parts_as_it_is_acknowledged() -> None:
    jobs = UNTOLD_MAX + 10
    bench = connected(ENDED, *((job, 1) for job in range(jobs, 0, -1)))
    told: set[int] = set()

    def listen(after: float) -> int:
        bench.now += after
        bench.agent.tick()
        new = {said.job for said in bench.said if isinstance(said, Report)}
        bench.said.clear()
        told.update(new)
        return len(new)

    assert listen(0.1) == LOOKS_MAX
    for _ in range(10):
        listen(0.1)
    assert len(told) == UNTOLD_MAX, "the rest waits for acknowledgements"
    for job in sorted(told):
        bench.agent.order(Ack(job, 1))
    listen(0.1)
    assert told == set(range(1, jobs + 1))


def test_a_run_dir_that_cannot_be_read_now_is_read_at_a_later_tick() -> None:
    bench = connected(ENDED, ME)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.tick(1.0) == []
    bench.runner.trouble = None
    assert bench.tick(1.0) == [DONE]


def test_looks_that_take_long_are_spread_over_ticks() -> None:
    bench = connected(ENDED, *((job, 1) for job in range(1, 31)))
    looked: list[AttemptId] = []
    look = bench.runner.look

    def slow(attempt: AttemptId) -> RunState:
        bench.now += 0.5
        looked.append(attempt)
        return look(attempt)

    bench.runner.look = slow  # type: ignore[method-assign]
    counts = []
    while len(looked) < 30:
        before = len(looked)
        bench.tick(0.1)
        counts.append(len(looked) - before)
    assert max(counts) <= LOOKS_S / 0.5 + 1
    assert sorted(looked) == [(job, 1) for job in range(1, 31)]
