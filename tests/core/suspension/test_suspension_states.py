"""The events of a suspension: what each makes of a running job, and what a worker cannot do with them."""

from __future__ import annotations

import pytest
from tests.builders import T0, a_placement, a_running_job

from grassq.core.model import Outcome, State
from grassq.core.states import Exited, Lost, Place, Ready, advance
from grassq.core.suspension.events import (
    NUMBER_MAX,
    Regain,
    Resume,
    Resumed,
    Suspend,
    Suspended,
    SuspendRefused,
    SuspensionOutdated,
)

LATER = T0 + 60


def test_a_suspension_that_frees_the_devices_goes_back_the_same_way() -> None:
    asked = advance(a_running_job(), Suspend(frees=True), T0 + 1)
    assert asked.suspension is not None and (asked.suspension.word, asked.is_freed) == ("kept", False)
    number = asked.suspension.number
    stopped = advance(asked, Suspended(1, number), T0 + 2)
    assert stopped.suspension is not None and (stopped.suspension.word, stopped.is_freed) == ("freed", True)
    assert advance(stopped, Suspend(), T0 + 3) is stopped, "it is suspended already"
    waits = advance(stopped, Resume(), T0 + 4)
    assert waits.suspension is not None and (waits.suspension.word, waits.is_freed) == ("resuming", True)
    assert advance(waits, Resume(), T0 + 5) is waits
    assert advance(waits, Resumed(1, number), T0 + 5) is waits, "a worker cannot let it go on"
    told = advance(waits, Regain(), T0 + 6)
    assert told.suspension is not None and (told.suspension.word, told.is_freed) == ("resuming", False)
    runs = advance(told, Resumed(1, told.suspension.number), T0 + 7)
    assert runs.suspension is not None and runs.suspension.word is None and not runs.is_suspended
    again = advance(runs, Suspend(), T0 - 1000)
    assert again.suspension is not None and again.suspension.number > told.suspension.number, "the clock was set back"
    assert advance(again, Exited(1, Outcome.EXITED, 0), LATER).suspension is None


def test_the_devices_of_a_suspended_job_can_be_given_back_later() -> None:
    kept = advance(a_running_job(), Suspend(), T0)
    assert kept.suspension is not None
    kept = advance(kept, Suspended(1, kept.suspension.number), T0)
    assert not kept.is_freed and advance(kept, Suspend(frees=True), T0).is_freed


def test_a_refused_suspension_leaves_a_job_that_runs_and_the_reason() -> None:
    asked = advance(a_running_job(), Suspend(frees=True), T0)
    assert asked.suspension is not None
    refused = advance(asked, SuspendRefused(1, asked.suspension.number, "too old"), T0)
    assert (refused.is_suspended, refused.is_freed, refused.reason) == (False, False, "not suspended: too old")


def test_a_worker_cannot_use_up_the_numbers() -> None:
    asked = advance(a_running_job(), Suspend(), T0)
    assert advance(asked, SuspensionOutdated(1, NUMBER_MAX), T0) is asked
    assert asked.suspension is not None
    ahead = advance(asked, SuspensionOutdated(1, asked.suspension.number + 7), T0)
    assert ahead.suspension is not None and ahead.suspension.number == asked.suspension.number + 8


def test_the_time_in_which_a_job_was_suspended_is_no_part_of_its_run_time() -> None:
    job = a_running_job(tries=2)
    for begun, ended in ((10, 30), (40, 45)):
        job = advance(job, Suspend(), T0 + begun - 1)
        assert job.suspension is not None
        report = Suspended(1, job.suspension.number)
        job = advance(job, report, T0 + begun)
        assert advance(job, report, T0 + begun + 3) == job, "a repeated report"
        assert job.ran_s(T0 + ended) == job.ran_s(T0 + begun), "it stands still"
        job = advance(job, Resume(), T0 + ended - 1)
        assert job.suspension is not None
        job = advance(job, Resumed(1, job.suspension.number), T0 + ended)
    assert (job.suspended_s, job.ran_s(T0 + 50)) == (25.0, 25.0)
    done = advance(job, Exited(1, Outcome.EXITED, 0), T0 + 60)
    assert (done.suspended_s, done.ran_s(LATER + 999)) == (25.0, 35.0)
    again = advance(job, Exited(1, Outcome.EXITED, 1), T0 + 60)
    placed = advance(advance(again, Ready(*again.waits), LATER), Place(a_placement()), LATER)
    assert placed.suspended_s == 0.0, "each attempt has its own run time"


@pytest.mark.parametrize("end", [Exited(1, Outcome.SIGNALLED, signal=9), Lost(1, Outcome.LOST, "rebooted")])
def test_a_job_that_ends_while_it_is_suspended_ran_until_it_was(end: Exited | Lost) -> None:
    job = advance(a_running_job(), Suspend(), T0 + 10)
    assert job.suspension is not None
    ended = advance(advance(job, Suspended(1, job.suspension.number), T0 + 10), end, T0 + 500)
    assert (ended.state, ended.ran_s(LATER)) == (State.FAILED, 10.0)
    back = advance(advance(job, Suspended(1, job.suspension.number), T0 + 10), end, T0 - 500)
    assert back.ran_s(LATER) == 0.0, "the clock was set back"
