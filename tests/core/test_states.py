"""How a job moves: the design's table, pair by pair, and random lives of a job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import event as note
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.builders import T0, a_job, a_placement, a_running_job

from grassq.core.model import FINAL, HOLDING, ForQueue, Outcome, State
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
    Requeue,
    Started,
    Stuck,
    Unready,
    advance,
    is_current,
)
from grassq.core.suspension.events import (
    Regain,
    Reorder,
    Resume,
    Resumed,
    Suspend,
    Suspended,
    SuspendRefused,
    SuspensionOutdated,
)
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
    Requeue: lambda attempt: Requeue(),
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
    (WAITING, Edit): {WAITING, QUEUED},
    (QUEUED, Place): {PLACED},
    (QUEUED, Unready): {WAITING},
    (QUEUED, Hold): {HELD},
    (QUEUED, Cancel): {CANCELLED},
    (QUEUED, Edit): {QUEUED, WAITING},
    (PLACED, Started): {RUNNING},
    (PLACED, Exited): {SUCCEEDED, FAILED, WAITING, QUEUED, CANCELLED},
    (PLACED, Lost): {FAILED, QUEUED, HELD, CANCELLED},
    (PLACED, RefusedByWorker): {QUEUED, FAILED, CANCELLED},
    (PLACED, Stuck): {PLACED},
    (PLACED, Cancel): {PLACED},
    (PLACED, Requeue): {PLACED},
    (RUNNING, Started): {RUNNING},
    (RUNNING, Exited): {SUCCEEDED, FAILED, WAITING, QUEUED, CANCELLED},
    (RUNNING, Lost): {FAILED, QUEUED, HELD, CANCELLED},
    (RUNNING, Stuck): {RUNNING},
    (RUNNING, Cancel): {RUNNING},
    (RUNNING, Requeue): {RUNNING},
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
        if before.spec.put_back:
            assert after.state not in {SUCCEEDED, CANCELLED}, "what is put back has not ended"
        elif before.cancel_requested:
            assert after.state in {before.state, PLACED, RUNNING, CANCELLED}, "a requested cancel ends in cancelled"
            assert after.cancel_requested
        if isinstance(event, Lost) and after.state is QUEUED:
            assert after.lost < LOST_ATTEMPTS_MAX, "what is lost again and again waits for somebody to look"
        assert (after.id, after.created) == (before.id, before.created)
        assert replace(after.spec, put_back=False) == replace(
            event.spec if isinstance(event, Edit) else before.spec, put_back=False
        )

    @rule(event_class=st.sampled_from([Hold, Release, Ready, Unready, Edit]))
    def user(self, event_class: type[Event]) -> None:
        self.happen(EVENTS[event_class](0))

    # Most lives should be long: a cancel ends those of jobs that hold nothing.
    @precondition(lambda self: self.job.state in HOLDING or self.job.attempt > 1)
    @rule()
    def cancel(self) -> None:
        self.happen(Cancel())

    @rule()
    def requeue(self) -> None:
        self.happen(Requeue())

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
        assert not job.spec.put_back or (job.cancel_requested and job.state in HOLDING)
        assert job.tried <= job.attempt and job.tried <= job.spec.tries
        assert job.suspension is None or job.state is RUNNING, "only the attempt that runs is suspended"


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=250, stateful_step_count=30, deadline=None)


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


def test_a_stuck_attempt_keeps_its_state_and_devices() -> None:
    stuck = advance(a_running_job(), Stuck(1, "killed, and yet alive"), LATER)
    assert (stuck.state, stuck.reason, stuck.placement) == (RUNNING, "killed, and yet alive", a_placement())


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


@pytest.mark.parametrize("end", ENDS[:3])
def test_a_job_that_is_put_back_is_queued_again_however_its_attempt_ends_and_uses_no_try(end: Event) -> None:
    flagged = advance(a_running_job(), Requeue(), T0 + 1)
    assert (flagged.state, flagged.cancel_requested) == (RUNNING, True), "it is told to end"
    assert advance(flagged, Requeue(), T0 + 1) is flagged
    again = advance(flagged, end, LATER)
    assert (again.state, again.tried, again.finished, again.placement) == (QUEUED, 0, None, None)
    assert not again.cancel_requested and again.spec == a_running_job().spec
    assert advance(again, Place(a_placement()), LATER).attempt == 2


def test_what_is_to_be_put_back_can_be_cancelled_and_fails_when_it_is_lost() -> None:
    flagged = advance(a_running_job(), Requeue(), T0)
    assert advance(advance(flagged, Cancel(), T0), ENDS[0], LATER).state is CANCELLED
    assert advance(flagged, Lost(1, Outcome.UNKNOWN, "gone"), LATER).state is FAILED, "it may still run there"
    cancelled = advance(a_running_job(), Cancel(), T0)
    assert advance(cancelled, Requeue(), T0) is cancelled, "a cancel stays one"


@pytest.mark.parametrize("state", [HELD, WAITING, QUEUED])
def test_a_job_that_holds_nothing_is_cancelled_at_once(state: State) -> None:
    gone = advance(replace(a_job(state=state), reason="why"), Cancel(), LATER)
    assert (gone.state, gone.finished, gone.reason) == (CANCELLED, LATER, None)
    assert gone.cancel_requested and gone.outcome is Outcome.CANCELLED


def test_an_edit_changes_what_was_asked_for_and_nothing_else() -> None:
    held = replace(a_job(7, state=HELD), reason="held", lost=2, attempt=2)
    edit = Edit(a_job(queue="other", gpu=1).spec, "name", 40, "what")
    after = advance(held, edit, LATER)
    assert after == replace(held, spec=edit.spec, name="name", priority=40)
