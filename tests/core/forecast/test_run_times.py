"""The distribution of run times: ranks, runs that have not ended, few runs, absurd runs."""

from __future__ import annotations

from math import isfinite
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.forecast.run_times import LONGEST_S, around, fit_runs, spread_of

SECONDS = st.floats(0.0, 1e12, allow_nan=False)
RUNS = st.lists(st.tuples(SECONDS, st.booleans()), min_size=1, max_size=40)
SHARES = st.floats(0.001, 0.999)


def covered(count: int, draws: int = 600) -> float:
    """The share of next runs within the 80 % interval of `count` runs, over many draws of both."""
    random, held = Random(count), 0
    for _ in range(draws):
        middle = random.uniform(2.0, 8.0)
        runs = [(random.lognormvariate(middle, 0.6), True) for _ in range(count)]
        times = fit_runs(runs)
        assert times is not None
        held += times.quantile(0.1) <= random.lognormvariate(middle, 0.6) <= times.quantile(0.9)
    return held / draws


@pytest.mark.parametrize("count", [2, 5, 10, 30])
def test_an_interval_holds_eight_of_ten_next_runs_from_few_runs_and_from_many(count: int) -> None:
    assert 0.74 <= covered(count) <= 0.9


def test_no_run_that_ended_is_no_distribution() -> None:
    assert fit_runs([]) is None
    assert fit_runs([(100.0, False)]) is None


def test_runs_that_have_not_ended_make_the_estimate_longer() -> None:
    short, longer = fit_runs([(10.0, True)]), fit_runs([(10.0, True), *[(60.0, False)] * 4])
    assert short is not None and longer is not None
    assert longer.quantile(0.5) > 1.5 * short.quantile(0.5)


@given(RUNS, SHARES, SECONDS)
def test_whatever_the_history_a_run_time_is_a_number_that_is_not_over_yet(
    runs: list[tuple[float, bool]], share: float, elapsed: float
) -> None:
    times = fit_runs(runs)
    if times is None:
        assert not any(ended for _, ended in runs)
        return
    for found in (
        times.quantile(share, elapsed),
        times.draw(share, elapsed_s=elapsed, shift=times.shift(0.3, 0.4), common=0.4),
    ):
        assert isfinite(found) and elapsed <= found <= max(LONGEST_S, elapsed)
    assert times.quantile(share / 2) <= times.quantile(share)


def test_a_job_that_runs_longer_than_all_like_runs_is_expected_to_run_on() -> None:
    times = fit_runs([(60.0, True)] * 20)
    assert times is not None
    assert 600.0 < times.quantile(0.5, 600.0) < 6000.0


def test_around_a_value_lies_the_value() -> None:
    assert around(50.0, 0.1).quantile(0.1) < 50.0 < around(50.0, 0.1).quantile(0.9)


@given(st.lists(SECONDS, min_size=1, max_size=64))
def test_the_middle_of_drawn_values_lies_within_their_interval(values: list[float]) -> None:
    low, middle, high = spread_of(values, 0.8)
    assert low <= middle <= high
