"""Sums of runs: against numbers made by hand, and against sums made in another way."""

from __future__ import annotations

from statistics import median as median_of

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.history import tally as tallies
from grassq.core.history.tally import HistoryTally, RunFacts, median, percentile
from grassq.core.resources.amounts import ONE, Allocation


def test_hours_are_amounts_times_run_time_with_fractions() -> None:
    tally = HistoryTally()
    half: Allocation = {"gpu": {"0": ONE // 2}, "cpu": 4 * ONE}
    tally.add("a", RunFacts(None, 1800.0, 60.0, half))  # a first attempt: 0.25 gpu h, 2 cpu h
    tally.add("a", RunFacts("succeeded", 3600.0, None, {"gpu": {"0": ONE, "1": ONE}}))  # 2 gpu h
    tally.add("a", RunFacts("failed", 900.0, 30.0, half))  # 0.125 gpu h, 1 cpu h
    tally.add("b", RunFacts("cancelled", None, None, {}))
    [a, b] = tally.rows(by_name=True)
    assert a == {
        "group": "a", "jobs": 2, "runs": 3, "succeeded": 1, "failed": 1, "cancelled": 0, "success_rate": 0.5,
        "run_hours": 1.75, "hours": {"cpu": 3.0, "gpu": 2.375}, "wait_median_s": 45.0, "wait_p90_s": 60.0,
    }  # fmt: skip
    assert (b["jobs"], b["runs"], b["success_rate"], b["wait_median_s"]) == (1, 0, None, None)
    assert tally.total.document(None)["hours"] == a["hours"] and tally.total.jobs == 3


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_median_and_percentile_are_what_they_say(numbers: list[float]) -> None:
    ordered = sorted(numbers)
    assert median(ordered) == median_of(numbers)
    ninety = percentile(ordered, 90)
    assert ninety is not None and ninety in numbers
    assert sum(number <= ninety for number in numbers) >= 0.9 * len(numbers)
    assert sum(number < ninety for number in numbers) < 0.9 * len(numbers)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["succeeded", "failed", "cancelled"]))))
def test_the_total_is_the_sum_of_the_groups(runs: list[tuple[str, str]]) -> None:
    tally = HistoryTally()
    for group, state in runs:
        tally.add(group, RunFacts(state, 36.0, 1.0, {"cpu": ONE}))
    rows = tally.rows(by_name=False)
    for key in ("jobs", "runs", "succeeded", "failed", "cancelled"):
        assert sum(int(str(row[key])) for row in rows) == tally.total.document(None)[key]


def test_groups_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "GROUPS_MAX", 2)
    tally = HistoryTally()
    for name in ("a", "b", "c", "d", "a"):
        tally.add(name, RunFacts("failed", 1.0, 1.0, {}))
    assert [(row["group"], row["jobs"]) for row in tally.rows(by_name=True)] == [("(others)", 2), ("a", 2), ("b", 1)]


def test_a_clock_that_was_set_back_takes_no_time_away() -> None:
    tally = HistoryTally()
    tally.add("a", RunFacts("failed", -5.0, -7.0, {"cpu": ONE}))
    assert tally.total.run_s == 0 and tally.total.used == {"cpu": 0.0} and list(tally.total.waits) == [0.0]
