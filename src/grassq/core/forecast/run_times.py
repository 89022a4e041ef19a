"""The distribution of the run times of like jobs, from few or many runs.

The k-th shortest of n runs stands at the share k / (n + 1): of the next run, the chance to be shorter is exactly that,
whatever the distribution is (the rank argument of conformal prediction). Runs that have not ended, or that were
cancelled, count as "at least so long" (the estimator of Kaplan and Meier). Between the runs, and beyond the shortest
and the longest, the distribution is a line of log(seconds) over the log-odds of the share, so its tails are those of a
log-logistic distribution. With few runs the line is mostly that of the prior: a usual spread, or the spread of less
like jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import exp, log, sqrt

from grassq.core.forecast.draws import logit

#: Shorter run times count as this: below it, the time between report and order matters more.
SHORTEST_S = 0.05
#: Longer run times count as this: 10 years.
LONGEST_S = 10 * 365 * 86400.0
#: The spread of run times before anything is known: 80 % of runs lie within a factor of exp(2.2 * 0.4) = 2.4.
SPREAD = 0.4
SPREAD_MIN, SPREAD_MAX = 0.01, 1.0
#: The bounds of a spread that is taken over from less like jobs.
USUAL_MIN, USUAL_MAX = 0.1, 0.6
#: How many runs the prior spread, and the prior middle of less like jobs, are worth.
SPREAD_WORTH, MIDDLE_WORTH = 3.0, 0.5
#: With this many runs their own ranks and the fitted line count the same.
RANKS_WORTH = 8.0
#: A progress counts between these fractions, and from this time on. The time that it leaves may differ from the time
#: that follows from the fraction by this factor, and by these seconds.
FRACTION_MIN, FRACTION_MAX, ELAPSED_MIN_S, FACTOR_MAX, SLACK_S = 0.02, 0.995, 2.0, 2.5, 5.0
#: The spread of a run time that a progress bar tells: at the beginning of the run, and near its end.
PROGRESS_SPREAD, PROGRESS_SPREAD_MIN = 0.15, 0.01
#: Log-odds beyond which shares do not differ.
ODDS_MAX = 500.0

#: From this many values on, ranks are used; and how many standard deviations hold `SHARE` of a normal distribution.
RANKS_MIN = 12
DEVIATIONS = 1.2816

#: Seconds, and whether the run had ended by itself: if not, it would have been longer.
Run = tuple[float, bool]


class RunTimes:
    """A distribution of run times."""

    __slots__ = ("_logs", "_odds", "count", "middle", "spread")

    def __init__(self, odds: list[float], logs: list[float], spread: float, count: int) -> None:
        """Take over points of the line; both lists grow strictly, and beyond them the line has the slope `spread`."""
        self._odds, self._logs, self.spread, self.count = odds, logs, spread, count
        self.middle = self._log_at(0.0)

    def shift(self, share: float, common: float) -> float:
        """Return how much longer all like jobs run in one play; `common` is the part of the variance they share."""
        return self.spread * logit(share) * sqrt(common)

    def draw(self, share: float, *, elapsed_s: float = 0.0, shift: float = 0.0, common: float = 0.0) -> float:
        """Return the whole run time at a share of the runs that lasted longer than `elapsed_s`."""
        own = sqrt(1.0 - common)
        odds = logit(share)
        if elapsed_s > SHORTEST_S:
            passed = self._odds_at(self.middle + (log(min(elapsed_s, LONGEST_S)) - shift - self.middle) / own)
            odds = _beyond(passed, share)
        seconds = _seconds(self.middle + own * (self._log_at(odds) - self.middle) + shift)
        return max(seconds, elapsed_s)

    def quantile(self, share: float, elapsed_s: float = 0.0) -> float:
        """Return the run time that this share of runs does not exceed, of those that lasted longer than `elapsed_s`."""
        odds = logit(share)
        if elapsed_s > SHORTEST_S:
            odds = _beyond(self._odds_at(log(min(elapsed_s, LONGEST_S))), share)
        return max(_seconds(self._log_at(odds)), elapsed_s)

    def _log_at(self, odds: float) -> float:
        at = bisect_right(self._odds, odds)
        if at == 0:
            return self._logs[0] + self.spread * (odds - self._odds[0])
        if at == len(self._odds):
            return self._logs[-1] + self.spread * (odds - self._odds[-1])
        low, high = self._odds[at - 1], self._odds[at]
        part = (odds - low) / (high - low)
        return self._logs[at - 1] + part * (self._logs[at] - self._logs[at - 1])

    def _odds_at(self, log_s: float) -> float:
        at = bisect_right(self._logs, log_s)
        if at == 0:
            found = self._odds[0] + (log_s - self._logs[0]) / self.spread
        elif at == len(self._logs):
            found = self._odds[-1] + (log_s - self._logs[-1]) / self.spread
        else:
            low, high = self._logs[at - 1], self._logs[at]
            part = (log_s - low) / (high - low)
            found = self._odds[at - 1] + part * (self._odds[at] - self._odds[at - 1])
        return min(max(found, -ODDS_MAX), ODDS_MAX)


def around(seconds: float, spread: float) -> RunTimes:
    """Return a distribution with this middle and spread."""
    return RunTimes([0.0], [log(min(max(seconds, SHORTEST_S), LONGEST_S))], max(spread, 1e-9), 0)


def times_by_progress(elapsed_s: float, fraction: float | None, left_s: float | None) -> RunTimes | None:
    """Return the run time of a job that says how far it is; None if that is too little, or contradicts itself.

    A bar may be about one part of the job only. Then the time it leaves does not go with the time the job has run.
    A bar that is full says nothing of what comes after it.
    """
    if fraction is None or not FRACTION_MIN <= fraction <= FRACTION_MAX or elapsed_s < ELAPSED_MIN_S:
        return None
    by_fraction = elapsed_s * (1.0 - fraction) / fraction
    left_s = by_fraction if left_s is None else left_s
    if not by_fraction / FACTOR_MAX - SLACK_S <= left_s <= by_fraction * FACTOR_MAX + SLACK_S:
        return None
    return around(elapsed_s + left_s, max(PROGRESS_SPREAD * (1.0 - fraction), PROGRESS_SPREAD_MIN))


def fit_runs(runs: Iterable[Run], prior: RunTimes | None = None) -> RunTimes | None:
    """Return the distribution of like runs, helped by a prior of less like ones; None if no run has ended."""
    points = _ranked(runs)
    if not points:
        return None
    count = len(points)
    usual = SPREAD if prior is None else min(max(prior.spread, USUAL_MIN), USUAL_MAX)
    spread = (SPREAD_WORTH * usual + count * _slope(points, usual)) / (SPREAD_WORTH + count)
    spread = min(max(spread, SPREAD_MIN), SPREAD_MAX)
    middle = sum(log_s - spread * odds for odds, log_s in points) / count
    if prior is not None:
        middle = (count * middle + MIDDLE_WORTH * prior.middle) / (count + MIDDLE_WORTH)
    own = count / (count + RANKS_WORTH)
    odds = [each for each, _ in points]
    logs = [own * log_s + (1.0 - own) * (middle + spread * each) for each, log_s in points]
    return RunTimes(odds, logs, spread, count)


def _ranked(runs: Iterable[Run]) -> list[tuple[float, float]]:
    """Return (log-odds of the share, log of the seconds) of every run that has ended, shortest first."""
    ordered = sorted((min(max(seconds, SHORTEST_S), LONGEST_S), not ended) for seconds, ended in runs)
    points: list[tuple[float, float]] = []
    longer, at_risk = 1.0, len(ordered)
    for seconds, is_unended in ordered:
        if not is_unended:
            longer *= at_risk / (at_risk + 1.0)
            points.append((logit(1.0 - longer), log(seconds)))
        at_risk -= 1
    return points


def _slope(points: list[tuple[float, float]], usual: float) -> float:
    """Return the slope of the line through the points; the usual one where there are too few."""
    if len(points) < 2:
        return usual
    mean_odds = sum(odds for odds, _ in points) / len(points)
    mean_log = sum(log_s for _, log_s in points) / len(points)
    across = sum((odds - mean_odds) ** 2 for odds, _ in points)
    up = sum((odds - mean_odds) * (log_s - mean_log) for odds, log_s in points)
    return up / across


def _beyond(passed: float, share: float) -> float:
    """Return the log-odds at a share of what lies beyond the log-odds `passed`."""
    left = (1.0 - share) / (1.0 + exp(passed))
    return min(log((1.0 - left) / left), 2 * ODDS_MAX) if left > 0.0 else 2 * ODDS_MAX


def _seconds(log_s: float) -> float:
    return min(exp(min(log_s, 700.0)), LONGEST_S)


def spread_of(values: list[float], share: float) -> tuple[float, float, float]:
    """Return the low end, the middle and the high end that hold this share of what follows drawn values like these.

    With few values their ranks say little, so a normal distribution of their logs stands in for them.
    """
    ordered = sorted(values)
    count = len(ordered)
    middle = _at_rank(ordered, (count + 1) * 0.5)
    outside = (1.0 - share) / 2.0
    if count >= RANKS_MIN:
        return _at_rank(ordered, (count + 1) * outside), middle, _at_rank(ordered, (count + 1) * (1.0 - outside))
    logs = [log(max(value, SHORTEST_S)) for value in ordered]
    mean = sum(logs) / count
    variance = sum((each - mean) ** 2 for each in logs) / max(1, count - 1)
    # 1.28 standard deviations hold 80 %; the mean of few values is uncertain itself, and so is their variance.
    reach = DEVIATIONS * sqrt(variance * (1.0 + 1.0 / count)) * (1.0 + 1.0 / count)
    return min(exp(mean - reach), ordered[0] if count > 1 else middle), middle, max(exp(mean + reach), middle)


def _at_rank(ordered: list[float], rank: float) -> float:
    """Return the value at a rank from 1 on, between two values by their distance."""
    at = min(max(rank, 1.0), float(len(ordered)))
    low = int(at) - 1
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - 1 - low) * (ordered[high] - ordered[low])
