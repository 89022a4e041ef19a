"""The agent and its orders: each row of the recovery table, every order twice, ends told until somebody listens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import a_worker
from tests.worker.workbench import (
    ACK,
    ALIVE,
    CHECK,
    DONE,
    ENDED,
    NOBODY,
    OLD_START,
    ORPHAN,
    RECORD,
    START,
    STOP,
    UNSPAWNED,
    VOID,
    Bench,
)

from grassq.core.messages import Check, Hello, Start
from grassq.core.model import Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Exited, Lost, RefusedByWorker, Started, Stuck
from grassq.worker.agent import ORDER_AGAIN_S, REPEAT_S
from grassq.worker.attempts import exited

# The recovery table.


@pytest.mark.parametrize(
    ("order", "found", "reports", "did"),
    [
        (START, ENDED, [DONE], []),
        (CHECK, ENDED, [DONE], []),
        (OLD_START, ENDED, [DONE], []),
        (OLD_START, RunState(), [Lost], []),
        (OLD_START, ALIVE, [Lost], []),
        (Check(1, 1, "boot-0"), NOBODY, [Lost], []),
        (START, RunState(), [], ["begin"]),
        (CHECK, RunState(), [Lost], []),
        (START, VOID, [RefusedByWorker], []),
        (START, ALIVE, [Started(1, 7)], ["watch"]),
        (CHECK, ALIVE, [Started(1, 7)], ["watch"]),
        (START, UNSPAWNED, [], ["watch"]),
        (START, ORPHAN, [Started(1, 7), Stuck], []),
        (CHECK, ORPHAN, [Started(1, 7), Stuck], []),
        (START, NOBODY, [Lost], []),
        (CHECK, NOBODY, [Lost], []),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else None,
)
def test_what_is_found_decides(order: Start | Check, found: RunState, reports: list[Any], did: list[str]) -> None:
    bench = Bench(found)
    events = bench.order(order)
    assert len(events) == len(reports)
    for event, expected in zip(events, reports, strict=True):
        assert event == expected or (isinstance(expected, type) and isinstance(event, expected)), (event, expected)
    assert bench.did() == did


def test_an_attempt_of_an_earlier_boot_is_lost_by_reboot_and_others_unknown() -> None:
    assert Bench(ALIVE).order(OLD_START)[0].outcome is Outcome.LOST
    assert Bench(NOBODY).order(CHECK)[0].outcome is Outcome.UNKNOWN


# Orders may come any number of times.


def test_a_start_that_comes_twice_begins_once() -> None:
    bench = Bench()
    bench.order(START, START, START)
    assert bench.did() == ["begin"]


def test_a_start_of_a_running_attempt_is_answered_with_how_it_stands() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("started", pid=9) == [Started(1, 9)]
    assert bench.order(START, CHECK) == [Started(1, 9)] * 2
    assert bench.did() == ["begin"]


def test_a_start_of_an_ended_attempt_is_answered_with_its_end() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("exited", record=RECORD) == [DONE]
    assert bench.order(START, CHECK, STOP) == [DONE] * 3
    assert bench.did() == ["begin"]


def test_a_start_that_comes_after_the_acknowledgement_starts_nothing() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    bench.order(ACK)
    bench.runner.found = ENDED
    assert bench.order(START) == [DONE]
    assert bench.did() == ["begin"]


def test_an_acknowledgement_of_what_has_not_ended_is_ignored() -> None:
    bench = Bench()
    bench.order(ACK, START, ACK, ACK)
    assert bench.hear("started", pid=9) == [Started(1, 9)]


def test_a_stop_that_comes_twice_is_one_stop() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=9)
    bench.did()
    assert bench.order(STOP, STOP) == [Started(1, 9)] * 2
    assert bench.did() == [("stop", 10.0)] * 2


# Ends are repeated until acknowledged.


def test_an_end_is_told_again_until_it_is_acknowledged() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    assert bench.tick(REPEAT_S / 2) == []
    assert bench.tick(REPEAT_S / 2) == [DONE]
    assert bench.tick(REPEAT_S) == [DONE]
    bench.order(ACK)
    assert bench.tick(REPEAT_S) == [] and bench.agent.idle


def test_an_end_is_heard_once() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    assert bench.hear("exited", record={**RECORD, "code": 5}) == []
    assert bench.hear("started", pid=3) == []


def test_what_nobody_ordered_is_not_reported() -> None:
    assert Bench().hear("exited", record=RECORD) == []


# Orders to shims that get lost.


def test_an_order_nobody_took_is_given_again() -> None:
    bench = Bench()
    bench.order(START)
    bench.tick(ORDER_AGAIN_S - 0.1)
    assert bench.did() == ["begin"]
    bench.tick(0.1)
    assert bench.did() == ["begin"]


def test_an_order_somebody_took_without_our_hearing_is_watched() -> None:
    bench = Bench()
    bench.order(START)
    bench.runner.found = ALIVE
    assert bench.tick(ORDER_AGAIN_S) == [Started(1, 7)]
    assert bench.did() == ["begin", "watch"]


@pytest.mark.parametrize("event", ["duplicate", "claim_failed", "bad_spec"])
def test_an_order_that_another_shim_took_is_looked_at(event: str) -> None:
    bench = Bench()
    bench.order(START)
    bench.runner.found = ALIVE
    assert bench.hear(event) == [Started(1, 7)]


def test_an_adopted_shim_that_spawns_later_is_told_when_asked_again() -> None:
    bench = Bench(UNSPAWNED)
    assert bench.order(START) == []
    bench.runner.found = ALIVE
    assert bench.order(START) == [Started(1, 7)]


# The rest.


def test_a_hello_says_who_this_is_and_a_change_is_not_fresh() -> None:
    bench = Bench()
    bench.agent.hello()
    assert bench.said == [Hello(a_worker(), True)]
    bench.agent.describe(a_worker(gpu=1))
    assert bench.said[1:] == [Hello(a_worker(gpu=1), False)]


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (RECORD, Outcome.EXITED),
        ({**RECORD, "code": 3}, Outcome.EXITED),
        ({**RECORD, "code": None, "signal": 9}, Outcome.SIGNALLED),
        ({**RECORD, "outcome": "cancelled", "code": None, "signal": 15}, Outcome.CANCELLED),
        ({**RECORD, "outcome": "spawn_failed", "code": None, "error": "no such program"}, Outcome.SPAWN_FAILED),
    ],
)
def test_an_exit_record_is_read_as_it_was_written(record: dict[str, Any], outcome: Outcome) -> None:
    event = exited(4, record)
    assert isinstance(event, Exited)
    assert (event.attempt, event.outcome) == (4, outcome)
    assert (event.code, event.signal, event.error) == (record["code"], record["signal"], record["error"])
