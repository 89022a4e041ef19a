"""Which failures are tried again, and after how long."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_job

from grassq.core.model import Job, Outcome
from grassq.core.waiting.retries import delay_s, is_tried_again, read_failures
from grassq.errors import BadInput


def a_failed_job(
    code: int | None = 1, signal: int | None = None, outcome: Outcome = Outcome.EXITED, **spec: object
) -> Job:
    job = a_job(7)
    spec.setdefault("tries", 3)
    return replace(job, spec=replace(job.spec, **spec), tried=1, exit_code=code, signal=signal, outcome=outcome)


@pytest.mark.parametrize(
    ("on", "code", "signal", "again"),
    [
        ("3", 3, None, True),
        ("3", 4, None, False),
        ("137", 137, None, True),
        ("137", None, 9, True),
        ("SIGKILL", None, 9, True),
        ("kill", 137, None, True),
        ("oom", None, 9, True),
        ("oom", None, 15, False),
        ("oom", 1, None, False),
        ("signalled", None, 11, True),
        ("signalled", 139, None, False),
        ("2, SIGSEGV", None, 11, True),
    ],
)
def test_a_job_is_tried_again_after_the_named_ends_alone(
    on: str, code: int | None, signal: int | None, again: bool
) -> None:
    outcome = Outcome.EXITED if signal is None else Outcome.SIGNALLED
    job = a_failed_job(code, signal, outcome, retry_on=read_failures(on, "--retry-on"))
    assert is_tried_again(job) is again
    opposite = a_failed_job(code, signal, outcome, no_retry_on=read_failures(on, "--no-retry-on"))
    assert is_tried_again(opposite) is not again
    assert not is_tried_again(replace(job, tried=3)), "no tries are left"


@pytest.mark.parametrize("text", ["", "0", "256", "-1", "later", "1,,2", "SIGFOO", ",".join(["1"] * 65), "\x00"])
def test_an_end_that_does_not_exist_is_refused_with_the_word(text: str) -> None:
    with pytest.raises(BadInput, match="--retry-on"):
        read_failures(text, "--retry-on")


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 1000), st.integers(1, 10**9))
def test_delays_grow_within_their_bounds_and_are_the_same_for_the_same_job(
    a: float, b: float, tried: int, id_: int
) -> None:
    low, high = min(a, b), max(a, b)
    job = replace(a_failed_job(retry_delay_s=(low, high)), tried=tried, id=id_)
    assert low <= delay_s(job) <= high
    assert delay_s(job) == delay_s(replace(job, name="other"))
    if low == high:
        assert delay_s(job) == low


@pytest.mark.parametrize(("low", "high"), [(30.0, 600.0), (0.0, 600.0), (30.0, 31.0), (0.0, 0.5)])
@pytest.mark.parametrize("tried", [1, 2, 60])
def test_jobs_that_failed_together_do_not_pile_up_at_either_end(low: float, high: float, tried: int) -> None:
    drawn = [delay_s(replace(a_failed_job(retry_delay_s=(low, high)), id=id_, tried=tried)) for id_ in range(1, 501)]
    assert len(set(drawn)) == 500
    least, most = min(drawn), max(drawn)
    assert sum(each < (least + most) / 2 for each in drawn) in range(200, 301), "they are spread evenly"


def test_a_range_from_nothing_grows_and_a_single_delay_is_exact() -> None:
    grown = [delay_s(replace(a_failed_job(retry_delay_s=(0.0, 600.0)), tried=tried)) for tried in range(1, 13)]
    assert 0.8 <= grown[0] <= 1.2 and all(b / a >= 1.3 for a, b in pairwise(grown[:9])) and grown[-1] >= 480
    assert {delay_s(replace(a_failed_job(retry_delay_s=(30.0, 30.0)), tried=tried)) for tried in range(1, 9)} == {30.0}


def test_delays_double_and_differ_between_jobs() -> None:
    jobs = [replace(a_failed_job(retry_delay_s=(30.0, 600.0)), id=id_, tried=3) for id_ in range(1, 50)]
    drawn = [delay_s(job) for job in jobs]
    assert all(120 * 0.8 <= each <= 120 * 1.2 for each in drawn) and len(set(drawn)) == len(drawn)
