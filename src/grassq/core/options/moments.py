"""Points in time and ranges of durations, as options take them."""

from __future__ import annotations

import re

from grassq.core.names import shown
from grassq.core.syntax.durations import duration_s
from grassq.errors import BadInput

_TIME = re.compile(r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?")
_DATE = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)


def check_moment(text: str, what: str) -> str:
    """Return a start time as it was typed: `18:00`, `2026-12-01T08:00`, `2026-12-01T08:00+01:00`.

    Without a distance to UTC the time is one of the sender's time zone, so it is read where a clock is.
    """
    typed = text.strip().upper()
    if _TIME.fullmatch(typed) or _DATE.fullmatch(typed):
        return typed
    raise BadInput(f"{what} needs a time such as 18:00 or 2026-12-01T08:00, not {shown(text)}")


def written_moment(at: float) -> str:
    """Return seconds since the epoch as a start time is typed, in UTC: `2026-12-01T07:00:00Z`."""
    days, second = divmod(int(at), 86_400)
    # A year begins in March here, so that the day of a leap year comes last; an era is 400 years.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    year = year_of_era + 400 * era + (month <= 2)
    minute, hour = second // 60 % 60, second // 3_600
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second % 60:02}Z"


def written_delays(delays: tuple[float, float]) -> str:
    """Return delays as they are typed."""
    low, high = delays
    return f"{low:g}s" if low == high else f"{low:g}s..{high:g}s"


def read_delays(text: str, what: str) -> tuple[float, float]:
    """Read `30s..10m`, or `30s` for a delay that does not grow, as the first and the longest delay in seconds."""
    first, dots, last = text.partition("..")
    low = duration_s(first, what, unit="s")
    high = duration_s(last, what, unit="s") if dots else low
    if high < low:
        raise BadInput(f"{what} needs the shorter delay first, not {shown(text)}")
    return low, high
