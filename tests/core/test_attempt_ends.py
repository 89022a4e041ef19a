"""How an attempt ends: by itself, lost with its machine, or refused; and what becomes of its job then."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import T0, a_job, a_placement, a_running_job

from grassq.core.model import ForTime, Outcome, State
from grassq.core.states import (
    LOST_ATTEMPTS_MAX,
    Exited,
    Hold,
    Lost,
    Place,
    Ready,
    RefusedByWorker,
    Release,
    Started,
    advance,
)
from grassq.core.waiting.retries import RETRY_DELAY_S

HELD, WAITING, QUEUED, PLACED = State.HELD, State.WAITING, State.QUEUED, State.PLACED
SUCCEEDED, FAILED = State.SUCCEEDED, State.FAILED

LATER = T0 + 60


def test_an_exit_is_final_and_kept_as_it_was_reported() -> None:
    report = Exited(1, Outcome.SIGNALLED, signal=9, error="killed", started=T0 + 1, ended=T0 + 2)
    failed = advance(a_running_job(), report, LATER)
    assert (failed.state, failed.outcome, failed.signal, failed.exit_code) == (FAILED, Outcome.SIGNALLED, 9, None)
    assert (failed.error, failed.started, failed.finished, failed.reason) == ("killed", T0 + 1, T0 + 2, None)
    succeeded = advance(a_running_job(), Exited(1, Outcome.EXITED, 0), LATER)
    assert (succeeded.state, succeeded.exit_code, succeeded.finished, succeeded.started) == (SUCCEEDED, 0, LATER, T0)
    assert advance(a_running_job(), Exited(1, Outcome.EXITED, 0, ended=T0 + 2), LATER).finished == T0 + 2
    assert advance(a_running_job(), Exited(1, Outcome.EXITED, 1), LATER).finished == LATER


def test_a_code_of_0_with_another_outcome_is_no_success() -> None:
    for outcome in set(Outcome) - {Outcome.EXITED}:
        assert advance(a_running_job(), Exited(1, outcome, 0), LATER).state is FAILED


def test_a_failed_try_is_repeated_after_a_delay_while_tries_are_left() -> None:
    waits = advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, 1), LATER)
    assert (waits.state, waits.waits, waits.placement) == (
        WAITING,
        (ForTime(LATER + RETRY_DELAY_S, RETRY_DELAY_S),),
        None,
    )
    assert waits.reason is not None and "try 1 of 2" in waits.reason
    second = advance(
        advance(advance(waits, Ready(*waits.waits), LATER), Place(a_placement()), LATER), Started(2, 5), LATER
    )
    assert advance(second, Exited(2, Outcome.EXITED, 1), LATER).state is FAILED


def test_what_cannot_be_spawned_is_not_tried_again() -> None:
    assert advance(a_running_job(tries=3), Exited(1, Outcome.SPAWN_FAILED), LATER).state is FAILED


def test_a_job_held_during_its_retry_delay_waits_for_the_user_alone() -> None:
    held = advance(advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, 1), LATER), Hold(), LATER)
    assert (held.state, held.waits) == (HELD, ())
    assert held.reason is not None and f"grass release {held.id}" in held.reason


def test_a_lost_attempt_fails_unless_the_job_asked_to_be_queued_again() -> None:
    lost = Lost(1, Outcome.UNKNOWN, "it is gone")
    failed = advance(a_running_job(), lost, LATER)
    assert (failed.state, failed.outcome, failed.error) == (FAILED, Outcome.UNKNOWN, "it is gone")
    assert failed.finished == LATER and failed.reason is None and failed.pid is None
    again = advance(a_running_job(requeue=True), lost, LATER)
    assert (again.state, again.reason, again.placement, again.tried) == (QUEUED, "it is gone", None, 0)


def test_an_attempt_that_only_lost_touch_with_the_broker_does_not_count_as_lost_with_its_machine() -> None:
    job = replace(a_running_job(requeue=True), lost=LOST_ATTEMPTS_MAX - 1)
    again = advance(job, Lost(1, Outcome.LOST, "its lease ended", lease_ended=True), LATER)
    assert (again.state, again.lost) == (QUEUED, LOST_ATTEMPTS_MAX - 1)


def test_after_three_lost_attempts_a_job_is_parked_until_somebody_looks() -> None:
    job = replace(a_running_job(requeue=True), lost=LOST_ATTEMPTS_MAX - 1)
    blocked = advance(job, Lost(1, Outcome.LOST, "rebooted"), LATER)
    assert (blocked.state, blocked.placement, blocked.lost) == (HELD, None, LOST_ATTEMPTS_MAX)
    assert blocked.reason is not None and "3 times (rebooted)" in blocked.reason
    released = advance(blocked, Release(), LATER)
    assert (released.state, released.lost, released.reason, released.waits) == (QUEUED, 0, None, ())


def test_a_refused_attempt_uses_no_try_and_a_final_refusal_is_spawn_failed() -> None:
    queued = advance(a_job(state=PLACED), RefusedByWorker(1, "draining"), LATER)
    assert (queued.state, queued.tried, queued.reason, queued.placement) == (QUEUED, 0, "draining", None)
    assert queued.pid is None
    failed = advance(a_job(state=PLACED, tries=3), RefusedByWorker(1, "no such file", final=True), LATER)
    assert (failed.state, failed.outcome, failed.error) == (FAILED, Outcome.SPAWN_FAILED, "no such file")
    assert (failed.finished, failed.reason) == (LATER, None)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1, 2]", '"\u00e4"', "[" * 500 + "]" * 500])
def test_a_report_with_a_result_that_no_shim_writes_is_invalid(text: str) -> None:
    sent = msgspec.msgpack.encode({"type": "exited", "attempt": 1, "outcome": "exited", "code": 0, "result": text})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(sent, type=Exited)
