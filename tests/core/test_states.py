"""How a job moves: the design's table, pair by pair, and random lives of a job."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import event as note
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.builders import T0, a_job, a_placement

from grassq.core.model import FINAL, HOLDING, ForJobs, ForQueue, ForTime, Job, Outcome, State
from grassq.core.states import (
    LOST_ATTEMPTS_MAX,
    Cancel,
    DependencyFailed,
    Edit,
    Event,
    Exited,
    Hold,
    Lost,
    Place,
    Ready,
    RefusedByWorker,
    Release,
    Started,
    Stuck,
    Unready,
    advance,
    is_current,
)
from grassq.core.suspension.events import (
    NUMBER_MAX,
    Regain,
    Reorder,
    Resume,
    Resumed,
    Suspend,
    Suspended,
    SuspendRefused,
    SuspensionOutdated,
)
from grassq.core.waiting.conditions import Dependency
from grassq.core.waiting.retries import RETRY_DELAY_S
from grassq.errors import InvalidMove

LATER = T0 + 60

#: An event of each kind, for the newest attempt of a job.
EVENTS: dict[type[Event], Callable[[int], Event]] = {
    Place: lambda attempt: Place(a_placement()),
    Started: lambda attempt: Started(attempt, 77),
    Exited: lambda attempt: Exited(attempt, Outcome.EXITED, code=0),
    Lost: lambda attempt: Lost(attempt, Outcome.UNKNOWN, "gone"),
    RefusedByWorker: lambda attempt: RefusedByWorker(attempt, "no room"),
    Stuck: lambda attempt: Stuck(attempt, "stuck"),
    Cancel: lambda attempt: Cancel(),
    Hold: lambda attempt: Hold(),
    Release: lambda attempt: Release(),
    Ready: lambda attempt: Ready(ForQueue()),
    Unready: lambda attempt: Unready("no queue"),
    DependencyFailed: lambda attempt: DependencyFailed("job 1 failed (exit code 3)"),
    Suspend: lambda attempt: Suspend(frees=True),
    Resume: lambda attempt: Resume(),
    Regain: lambda attempt: Regain(),
    Reorder: lambda attempt: Reorder(),
    Suspended: lambda attempt: Suspended(attempt, 1),
    Resumed: lambda attempt: Resumed(attempt, 1),
    SuspendRefused: lambda attempt: SuspendRefused(attempt, 1, "too old"),
    SuspensionOutdated: lambda attempt: SuspensionOutdated(attempt, 9),
    Edit: lambda attempt: Edit(a_job(queue="other", gpu=1, tries=3).spec, "name", 40, "what"),
}

HELD, WAITING, QUEUED, PLACED, RUNNING = State.HELD, State.WAITING, State.QUEUED, State.PLACED, State.RUNNING
SUCCEEDED, FAILED, CANCELLED = State.SUCCEEDED, State.FAILED, State.CANCELLED

#: The table of the design: where each event may lead from each state; a pair not named is no move.
MOVES: dict[tuple[State, type[Event]], set[State]] = {
    (HELD, Release): {QUEUED, WAITING},
    (HELD, Ready): {HELD},
    (HELD, DependencyFailed): {FAILED},
    (HELD, Cancel): {CANCELLED},
    (HELD, Edit): {HELD},
    (WAITING, Ready): {QUEUED, WAITING},
    (WAITING, DependencyFailed): {FAILED},
    (WAITING, Unready): {WAITING},
    (WAITING, Hold): {HELD},
    (WAITING, Cancel): {CANCELLED},
    (WAITING, Edit): {WAITING},
    (QUEUED, Place): {PLACED},
    (QUEUED, Unready): {WAITING},
    (QUEUED, Hold): {HELD},
    (QUEUED, Cancel): {CANCELLED},
    (QUEUED, Edit): {QUEUED},
    (PLACED, Started): {RUNNING},
    (PLACED, Exited): {SUCCEEDED, FAILED, WAITING, CANCELLED},
    (PLACED, Lost): {FAILED, QUEUED, HELD, CANCELLED},
    (PLACED, RefusedByWorker): {QUEUED, FAILED, CANCELLED},
    (PLACED, Stuck): {PLACED},
    (PLACED, Cancel): {PLACED},
    (RUNNING, Started): {RUNNING},
    (RUNNING, Exited): {SUCCEEDED, FAILED, WAITING, CANCELLED},
    (RUNNING, Lost): {FAILED, QUEUED, HELD, CANCELLED},
    (RUNNING, Stuck): {RUNNING},
    (RUNNING, Cancel): {RUNNING},
    **{(RUNNING, event): {RUNNING} for event in (Suspend, Resume, Regain, Reorder)},
    **{(RUNNING, event): {RUNNING} for event in (Suspended, Resumed, SuspendRefused, SuspensionOutdated)},
    # After a restore: a worker has an attempt that the store does not know.
}


@pytest.mark.parametrize("event_class", EVENTS, ids=lambda event_class: event_class.__name__)
@pytest.mark.parametrize("state", State)
def test_a_pair_of_state_and_event_is_a_move_of_the_table_or_no_move_at_all(
    state: State, event_class: type[Event]
) -> None:
    job = a_job(7, state=state, attempt=3)
    if (state, event_class) in MOVES:
        assert advance(job, EVENTS[event_class](3), T0).state in MOVES[state, event_class]
    else:
        with pytest.raises(InvalidMove, match=rf"job 7 is {state} in attempt 3: no rule for {event_class.__name__}$"):
            advance(job, EVENTS[event_class](3), T0)


@pytest.mark.parametrize("attempt", [2, 3, 4])
@pytest.mark.parametrize("worker", ["w", "other"])
@pytest.mark.parametrize("state", State)
def test_only_a_report_about_the_attempt_that_holds_devices_counts(state: State, worker: str, attempt: int) -> None:
    job = a_job(state=state, attempt=3, placement=a_placement("w") if state in HOLDING | FINAL else None)
    counts = state in HOLDING and (worker, attempt) == ("w", 3)
    assert is_current(job, Started(attempt, 77), worker) == counts


class Life(RuleBasedStateMachine):
    """One job to which anything may happen, in any order."""

    @initialize(
        tries=st.integers(1, 3), on_lost=st.sampled_from(["fail", "requeue"]), state=st.sampled_from([HELD, QUEUED])
    )
    def submit(self, tries: int, on_lost: str, state: State) -> None:
        self.job = a_job(state=state, tries=tries, on_lost="requeue" if on_lost == "requeue" else "fail")
        self.now = T0

    def happen(self, event: Event) -> None:
        before, self.now = self.job, self.now + 1
        if (before.state, type(event)) not in MOVES:
            with pytest.raises(InvalidMove):
                advance(before, event, self.now)
            return
        self.job = after = advance(before, event, self.now)
        note(f"{before.state} -> {after.state}")
        assert after.state in MOVES[before.state, type(event)]
        assert after.attempt == before.attempt + isinstance(event, Place)
        well = isinstance(event, Exited) and event.outcome is Outcome.EXITED and event.code == 0
        assert (after.state is SUCCEEDED) == (well and not before.cancel_requested)
        if before.cancel_requested:
            assert after.state in {before.state, PLACED, RUNNING, CANCELLED}, "a requested cancel ends in cancelled"
        assert after.cancel_requested >= before.cancel_requested
        if isinstance(event, Lost) and after.state is QUEUED:
            assert after.lost < LOST_ATTEMPTS_MAX, "what is lost again and again waits for somebody to look"
        assert (after.id, after.created) == (before.id, before.created)
        assert after.spec == (event.spec if isinstance(event, Edit) else before.spec)

    @rule(event_class=st.sampled_from([Hold, Release, Ready, Unready, Edit]))
    def user(self, event_class: type[Event]) -> None:
        self.happen(EVENTS[event_class](0))

    # Most lives should be long: a cancel ends those of jobs that hold nothing.
    @precondition(lambda self: self.job.state in HOLDING or self.job.attempt > 1)
    @rule()
    def cancel(self) -> None:
        self.happen(Cancel())

    @rule()
    def place(self) -> None:
        self.happen(Place(a_placement()))

    @precondition(lambda self: self.job.state in HOLDING)
    @rule(pid=st.integers(1, 2))
    def start(self, pid: int) -> None:
        self.happen(Started(self.job.attempt, pid))

    @precondition(lambda self: self.job.state in HOLDING)
    @rule(
        outcome=st.sampled_from([Outcome.EXITED, Outcome.SIGNALLED, Outcome.SPAWN_FAILED]),
        code=st.sampled_from([0, 0, 1, None]),
        ended=st.sampled_from([None, T0]),
    )
    def end(self, outcome: Outcome, code: int | None, ended: float | None) -> None:
        self.happen(Exited(self.job.attempt, outcome, code, ended=ended))

    @rule(event_class=st.sampled_from([Lost, Stuck, RefusedByWorker, Started, Exited]), final=st.booleans())
    def report(self, event_class: type[Event], final: bool) -> None:
        event = EVENTS[event_class](self.job.attempt)
        self.happen(replace(event, final=final) if isinstance(event, RefusedByWorker) else event)

    @rule(action=st.sampled_from([Suspend(), Suspend(frees=True), Resume(), Regain(), Reorder()]))
    def suspend_or_resume(self, action: Event) -> None:
        before = self.job.suspension
        self.happen(action)
        after = self.job.suspension
        if before is not None and after is not None and before.wants_stop != after.wants_stop:
            assert after.number > before.number and not after.confirmed, "each order has a number of its own"
        if isinstance(action, Regain) and after != before:
            assert before is not None and before.waits
        elif before is not None and before.is_freed and after is not None:
            assert after.wants_stop, "one that has given its devices back goes on only when it has them again"

    @precondition(lambda self: self.job.suspension is not None)
    @rule(
        kind=st.sampled_from([Suspended, Resumed, lambda a, n: SuspendRefused(a, n, "x"), SuspensionOutdated]),
        off=st.sampled_from([-1, 0, 0, 0, 1, 5]),
    )
    def report_of_a_suspension(self, kind: Callable[[int, int], Event], off: int) -> None:
        before = self.job.suspension
        assert before is not None
        event = kind(self.job.attempt, max(1, before.number + off))
        self.happen(event)
        after = self.job.suspension
        assert after is not None
        if off != 0 and not isinstance(event, SuspensionOutdated):
            assert after == before, "a report about another order changes nothing"
        if after.confirmed and not before.confirmed and not isinstance(event, SuspendRefused):
            assert after.wants_stop == isinstance(event, Suspended)

    @invariant()
    def the_fields_agree_with_the_state(self) -> None:
        job = self.job
        assert (job.finished is not None) == (job.state in FINAL)
        assert job.placement is not None or job.state not in HOLDING
        assert job.placement is None or job.state in HOLDING | FINAL
        assert (job.pid is not None) == (job.state is RUNNING)
        assert bool(job.waits) == (job.state is WAITING) or job.state is HELD, "a waiting job waits for something"
        assert job.outcome is not None or job.state not in FINAL
        assert (job.outcome is Outcome.CANCELLED) == (job.state is CANCELLED)
        assert not job.cancel_requested or job.state in HOLDING | {CANCELLED}
        assert job.tried <= job.attempt and job.tried <= job.spec.tries
        assert job.suspension is None or job.state is RUNNING, "only the attempt that runs is suspended"


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=250, stateful_step_count=30, deadline=None)


def a_running_job(*, tries: int = 1, requeue: bool = False) -> Job:
    return replace(
        a_job(state=RUNNING, tries=tries, on_lost="requeue" if requeue else "fail"), pid=77, started=T0, reason="stuck"
    )


def test_a_start_is_noted_once_and_a_repeated_one_changes_nothing() -> None:
    started = advance(replace(a_job(state=PLACED), reason="stuck"), Started(1, 77), LATER)
    assert (started.state, started.pid, started.started, started.reason) == (RUNNING, 77, LATER, None)
    assert advance(started, Started(1, 77), LATER + 1) is started
    adopted = advance(started, Started(1, 78), LATER + 1)
    assert (adopted.pid, adopted.started) == (78, LATER)


def test_a_new_attempt_knows_nothing_of_the_last_one() -> None:
    last = advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, 3, error="x"), LATER)
    assert (last.outcome, last.exit_code, last.error) == (Outcome.EXITED, 3, "x")
    placement = a_placement("other")
    again = advance(replace(advance(last, Ready(*last.waits), LATER), reason="why"), Place(placement), LATER)
    assert (again.attempt, again.placement, again.tried) == (2, placement, 1)
    assert (again.outcome, again.exit_code, again.signal, again.error, again.started, again.reason) == (None,) * 6


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


def test_a_stuck_attempt_keeps_its_state_and_devices() -> None:
    stuck = advance(a_running_job(), Stuck(1, "killed, and yet alive"), LATER)
    assert (stuck.state, stuck.reason, stuck.placement) == (RUNNING, "killed, and yet alive", a_placement())


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


ENDS: list[Event] = [
    Exited(1, Outcome.EXITED, 0, ended=T0 + 2),
    Exited(1, Outcome.EXITED, 1, ended=T0 + 2),
    Exited(1, Outcome.SIGNALLED, signal=15, ended=T0 + 2),
    Lost(1, Outcome.UNKNOWN, "gone"),
    RefusedByWorker(1, "void"),
    RefusedByWorker(1, "void", final=True),
]


@pytest.mark.parametrize(
    ("state", "end"), [(state, end) for state in (PLACED, RUNNING) for end in ENDS if (state, type(end)) in MOVES]
)
def test_a_requested_cancel_always_ends_in_cancelled(state: State, end: Event) -> None:
    flagged = advance(a_job(state=state, tries=3, on_lost="requeue"), Cancel(2.5), T0 + 1)
    assert (flagged.state, flagged.cancel_requested, flagged.stop_grace_s) == (state, True, 2.5)
    gone = advance(flagged, end, LATER)
    assert (gone.state, gone.outcome, gone.reason) == (CANCELLED, Outcome.CANCELLED, None)
    assert gone.finished == (T0 + 2 if isinstance(end, Exited) else LATER)
    if isinstance(end, Exited):
        assert (gone.exit_code, gone.signal) == (end.code, end.signal)


@pytest.mark.parametrize("state", [HELD, WAITING, QUEUED])
def test_a_job_that_holds_nothing_is_cancelled_at_once(state: State) -> None:
    gone = advance(replace(a_job(state=state), reason="why"), Cancel(), LATER)
    assert (gone.state, gone.finished, gone.reason) == (CANCELLED, LATER, None)
    assert gone.cancel_requested and gone.outcome is Outcome.CANCELLED


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


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1, 2]", '"\u00e4"', "[" * 500 + "]" * 500])
def test_a_report_with_a_result_that_no_shim_writes_is_invalid(text: str) -> None:
    sent = msgspec.msgpack.encode({"type": "exited", "attempt": 1, "outcome": "exited", "code": 0, "result": text})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(sent, type=Exited)


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


def test_an_edit_changes_what_was_asked_for_and_nothing_else() -> None:
    held = replace(a_job(7, state=HELD), reason="held", lost=2, attempt=2)
    edit = Edit(a_job(queue="other", gpu=1).spec, "name", 40, "what")
    after = advance(held, edit, LATER)
    assert after == replace(held, spec=edit.spec, name="name", priority=40)


def test_the_reason_of_a_job_that_waits_for_its_next_try_counts_the_tries_that_it_has_now() -> None:
    waiting = advance(a_running_job(tries=2), Exited(1, Outcome.EXITED, code=1), LATER)
    assert waiting.reason is not None and "try 1 of 2" in waiting.reason
    after = advance(waiting, Edit(replace(waiting.spec, tries=5), None, 30), LATER)
    assert after.reason is not None and "try 1 of 5" in after.reason and after.waits == waiting.waits
