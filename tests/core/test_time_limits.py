"""Time limits as they are typed, planned, told and judged; the processes are in tests/run/test_shim_limits.py."""

from __future__ import annotations

import math

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_placement, a_spec, a_worker, an_offer
from tests.core.syntax.enqueue_lines import enqueue, words_of

from grassq.core.editing.values import difference
from grassq.core.messages import Hello
from grassq.core.model import Constraints, Job, Offer, Outcome, Placement, QueueTemplate, State, WorkerInfo
from grassq.core.offer_changes import changes
from grassq.core.options.warning import Warn, checked_warn
from grassq.core.planner.explain import explain, never_fits
from grassq.core.planner.plan import limited, plan
from grassq.core.planner.workers import with_templates
from grassq.core.printable import exact_span
from grassq.core.states import Exited, advance
from grassq.core.syntax.enqueue import split_create_queue
from grassq.core.worker_checks import checked
from grassq.errors import BadInput

HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("typed", "before_s", "signal", "number"),
    [
        ("60s", 60.0, "USR1", 10),
        ("60", 60.0, "USR1", 10),
        ("1h30m:SIGTERM", 5400.0, "TERM", 15),
        ("5m:usr2", 300.0, "USR2", 12),
        ("5m:2", 300.0, "INT", 2),
        ("5m:cld", 300.0, "CHLD", 17),
        ("5m:64", 300.0, "64", 64),
    ],
)
def test_a_warning_is_a_time_and_a_signal_by_name_or_number(
    typed: str, before_s: float, signal: str, number: int
) -> None:
    options = enqueue(f"--time-limit 2d --warn {typed} --idle-limit 30m ls").options
    assert options.warn == Warn(before_s, signal) and options.warn.number == number
    assert (options.time_limit_s, options.idle_limit_s) == (2 * DAY_S, 1800.0)
    assert enqueue(f"--warn {options.warn.typed} ls").options.warn == options.warn, "it is typed as it is read"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--time-limit -1", "--time-limit needs a number and its unit"),
        ("--time-limit 0", "--time-limit needs at least 1s, not '0'"),
        ("--time-limit abc", "--time-limit needs a number and its unit"),
        ("--time-limit 1e9d", "--time-limit needs a number"),
        ("--time-limit 366d", "--time-limit may be at most 365d"),
        ("--idle-limit 0.5s", "--idle-limit needs at least 1s"),
        ("--warn 60s:FOO", "--warn needs a signal such as USR1, TERM or 10, not 'FOO'"),
        ("--warn 60s:", "--warn needs a signal"),
        ("--warn 60s:0", "--warn needs a signal"),
        ("--warn 60s:65", "--warn needs a signal"),
        ("--warn 60s:-1", "--warn needs a signal"),
        ("--warn 60s:\N{ARABIC-INDIC DIGIT FIVE}", "--warn needs a signal"),
        ("--warn 60s:9", "no process can handle KILL"),
        ("--warn 60s:sigstop", "no process can handle STOP"),
        ("--warn 0", "--warn needs a time before the limit"),
        ("--warn :USR1", "--warn needs a number and its unit"),
    ],
)
def test_what_is_no_limit_or_no_warning_is_refused_by_name(typed: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        enqueue(f"{typed} ls")
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("before_s", [math.nan, math.inf, -1.0, 1e300])
def test_a_warning_of_a_program_has_the_same_bounds(before_s: float) -> None:
    with pytest.raises(BadInput, match="warn_s needs a time before the limit"):
        checked_warn(before_s, "USR1", "warn_s")


def test_a_queue_has_a_default_and_a_maximum() -> None:
    typed = split_create_queue(words_of("q --time-limit 2h --max-time-limit 1d"))
    assert (typed.time_limit_s, typed.max_time_limit_s) == (2 * HOUR_S, DAY_S)
    for line, said in (
        ("q --time-limit 2d --max-time-limit 1d", "--time-limit 2d is longer than --max-time-limit 1d"),
        ("q --max-time-limit 0", "--max-time-limit needs at least 1s"),
    ):
        with pytest.raises(BadInput, match=said):
            split_create_queue(words_of(line))
    assert changes(Offer("q"), Offer("q", time_limit_s=5400.0)) == ["--time-limit none -> 1h30m"]


@pytest.mark.parametrize(
    ("usual_s", "most_s", "own_s", "effective_s"),
    [
        (None, None, None, None),
        (None, None, 60.0, 60.0),
        (HOUR_S, DAY_S, None, HOUR_S),
        (None, DAY_S, None, DAY_S),
        (HOUR_S, DAY_S, DAY_S, DAY_S),
        (HOUR_S, None, 60.0, 60.0),
    ],
)
def test_an_attempt_has_the_limit_of_its_job_else_of_its_queue(
    usual_s: float | None, most_s: float | None, own_s: float | None, effective_s: float | None
) -> None:
    offer = replace(an_offer(), time_limit_s=usual_s, max_time_limit_s=most_s)
    job = with_limit(a_job(cpu=1), own_s)
    board = a_board(a_worker(cpu=4, offers=[offer]), jobs=[job])
    [(_, where)] = plan(board, T0).placements
    assert limited(job, where).time_limit_s == effective_s


def with_limit(job: Job, limit_s: float | None, **more: object) -> Job:
    """A job with this time limit, as it is submitted."""
    if limit_s is None:
        return job
    constraints = replace(job.spec.constraints, limit_s=limit_s)
    return replace(job, spec=replace(job.spec, time_limit_s=limit_s, constraints=constraints, **more))


def test_a_job_above_the_maximum_goes_to_another_worker_or_nowhere() -> None:
    short = a_worker("short", cpu=4, offers=[replace(an_offer(), max_time_limit_s=HOUR_S)])
    job = with_limit(a_job(cpu=1), DAY_S)
    said = "queue 'default' allows a time limit of at most 1h, and the job has 1d"
    assert never_fits(a_board(short), "default", job.spec.request, job.spec.constraints) == said
    board = a_board(short, a_worker("long", cpu=4), jobs=[job])
    assert [where.worker for _, where in plan(board, T0).placements] == ["long"]


def test_a_job_with_a_limit_waits_for_a_worker_that_keeps_it() -> None:
    old = replace(a_worker("old", cpu=4), keeps_limits=False)
    said = "worker old is of an earlier release, which keeps no time limits"
    for constraints in (Constraints(limit_s=60.0), Constraints(idle_limit=True)):
        job = a_job(cpu=1)
        job = replace(job, spec=replace(job.spec, constraints=constraints))
        board = a_board(old, jobs=[job])
        assert plan(board, T0).placements == [] and explain(board, job, T0)[0].why == said
    template = QueueTemplate(Offer("q", max_time_limit_s=60.0))
    assert [offer.queue for offer in with_templates(old, {"q": template}).offers] == ["default"]
    assert [offer.queue for offer in with_templates(a_worker(cpu=1), {"q": template}).offers] == ["default", "q"]


def test_what_has_no_limit_is_stored_and_sent_as_before() -> None:
    for value in (a_placement(), an_offer("q", gpu=1), a_spec()):
        assert b"limit_s" not in msgspec.msgpack.encode(value)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value)) == value
    old: dict[str, object] = {
        "worker": "w",
        "boot": "b",
        "allocation": {},
        "prefix": [],
        "cwd": None,
        "env": [],
        "lease_s": None,
    }
    assert msgspec.convert(old, Placement).time_limit_s is None
    assert not msgspec.convert({"name": "w", "boot": "b", "given": {}}, WorkerInfo).keeps_limits


@pytest.mark.parametrize("limit_s", [0.0, -1.0, 1e12, math.nan, math.inf])
def test_a_worker_that_lies_about_its_limits_is_turned_away(limit_s: float) -> None:
    for offer in (Offer("q", time_limit_s=limit_s), Offer("q", max_time_limit_s=limit_s)):
        with pytest.raises(BadInput, match="queue q has a time limit"):
            checked(Hello(a_worker(offers=[offer])))


def test_an_attempt_that_timed_out_is_a_failed_try_unless_it_was_cancelled() -> None:
    end = Exited(1, Outcome.TIMED_OUT, 0, error="the time limit of 1m was reached")
    job = a_job(state=State.RUNNING)
    assert advance(job, end, T0).state is State.FAILED, "whatever its exit code is"
    assert advance(a_job(state=State.RUNNING, tries=2), end, T0).state is State.WAITING
    assert advance(replace(job, cancel_requested=True), end, T0).state is State.CANCELLED


def test_an_edit_says_which_limits_it_changed() -> None:
    before = a_job()
    after = with_limit(before, HOUR_S, warn=Warn(60.0), idle_limit_s=90.0)
    assert difference(before, after) == "time-limit none -> 3600, warn none -> 1m:USR1, idle-limit none -> 90"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1, "1s"), (90, "1m30s"), (5400, "1h30m"), (86401, "1d1s"), (0.25, "0.25s"), (3600.5, "1h0.5s")],
)
def test_a_duration_is_written_as_it_would_be_typed(seconds: float, text: str) -> None:
    assert exact_span(seconds) == text
