"""What a waiting job waits for: its queue, a time, other jobs; and what a held job keeps of that."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import T0, a_job, a_running_job

from grassq.core.model import ForJobs, ForQueue, ForTime, Job, Outcome, State
from grassq.core.states import DependencyFailed, Edit, Exited, Hold, Ready, Release, Unready, advance
from grassq.core.waiting.conditions import Dependency
from grassq.core.waiting.retries import RETRY_DELAY_S

HELD, WAITING, QUEUED, FAILED = State.HELD, State.WAITING, State.QUEUED, State.FAILED

LATER = T0 + 60


def test_a_job_that_may_not_be_placed_says_why_and_goes_on_when_it_may() -> None:
    waiting = advance(a_job(), Unready("no queue"), LATER)
    assert (waiting.state, waiting.reason, waiting.waits) == (WAITING, "no queue", (ForQueue(),))
    assert advance(waiting, Unready("too large"), LATER).reason == "too large"
    assert advance(waiting, Ready(ForTime(LATER)), LATER) == waiting, "nothing else lets it go on"
    ready = advance(waiting, Ready(ForQueue()), LATER)
    assert (ready.state, ready.reason, ready.waits) == (QUEUED, None, ())


@pytest.mark.parametrize("queue_first", [True, False])
def test_a_job_that_waits_for_a_time_and_its_queue_is_queued_when_both_have_come(queue_first: bool) -> None:
    delay = ForTime(LATER + RETRY_DELAY_S, RETRY_DELAY_S)
    retried = advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, 1), LATER)
    both = advance(retried, Unready("no queue"), LATER)
    assert (both.state, both.waits, both.reason) == (WAITING, (delay, ForQueue()), "no queue")
    first, last = (ForQueue(), delay) if queue_first else (delay, ForQueue())
    one = advance(both, Ready(first), LATER)
    assert (one.state, one.waits) == (WAITING, (last,))
    assert one.reason == (retried.reason if queue_first else "no queue")
    assert advance(one, Ready(last), LATER).state is QUEUED


AFTER = (Dependency("ok", ((3, 3), (5, 6))),)


def a_dependent_job() -> Job:
    job = a_job(9, state=WAITING)
    return replace(job, spec=replace(job.spec, dependencies=AFTER), waits=(ForJobs(), ForTime(LATER)), reason="why")


def test_a_held_job_keeps_what_it_waits_for_and_waits_again_when_it_is_released() -> None:
    held = advance(a_dependent_job(), Hold(), LATER)
    assert (held.state, held.waits) == (HELD, (ForJobs(), ForTime(LATER)))
    released = advance(held, Release(), LATER)
    assert (released.state, released.waits) == (WAITING, (ForJobs(), ForTime(LATER)))
    assert released.reason == "waits to start after jobs 3, 5-6"
    ready = advance(advance(held, Ready(ForJobs()), LATER), Ready(ForTime(LATER)), LATER)
    assert (ready.state, ready.waits) == (HELD, ())
    assert advance(ready, Release(), LATER).state is QUEUED


def test_a_job_whose_condition_cannot_come_true_fails_with_the_reason_and_without_a_try() -> None:
    for job in (a_dependent_job(), advance(a_dependent_job(), Hold(), LATER)):
        failed = advance(job, DependencyFailed("job 3 failed (exit code 1)"), LATER)
        assert (failed.state, failed.outcome, failed.attempt) == (FAILED, Outcome.DEPENDENCY_FAILED, 0)
        assert (failed.error, failed.finished, failed.waits) == ("job 3 failed (exit code 1)", LATER, ())


def test_the_reason_of_a_job_that_waits_for_its_next_try_counts_the_tries_that_it_has_now() -> None:
    waiting = advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, code=1), LATER)
    assert waiting.reason is not None and "try 1 of 2" in waiting.reason
    after = advance(waiting, Edit(replace(waiting.spec, tries=5), None, 30), LATER)
    assert after.reason is not None and "try 1 of 5" in after.reason and after.waits == waiting.waits
