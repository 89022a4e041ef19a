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

    Without a distance to UTC the time is one of the machine's time zone, so it is read where a clock is.
    """
    typed = text.strip().upper()
    if _TIME.fullmatch(typed) or _DATE.fullmatch(typed):
        return typed
    raise BadInput(f"{what} needs a time such as 18:00 or 2026-12-01T08:00, not {shown(text)}")


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
