"""The times of --begin: `16:00`, `now+1hour`, `tomorrow`, `2026-12-01T08:00`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from grassq.core.names import shown
from grassq.errors import BadInput

_NOW = re.compile(r"now(?:(?P<sign>[+-])(?P<count>\d{1,9})(?P<unit>[a-z]*))?", re.IGNORECASE)
_UNITS = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s*(?P<half>[ap]m)?", re.IGNORECASE)
#: Hours of the day that have names.
_NAMED = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16, "elevenses": 11}
_DATES = ("%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y", "%m%d%y", "%m/%d", "%m%d")
_HOW = "write 16:00, now+1hour, tomorrow or 2026-12-01T08:00"


def begin_at(text: str, now: datetime) -> float:
    """Return a time in seconds since the epoch; an hour that is over today is tomorrow's.

    `now` is local time without an offset: the offset of today is not that of every day.
    """
    typed = text.strip()
    if (after_s := from_now_s(typed, "--begin")) is not None:
        if after_s < 0:
            raise BadInput(f"invalid --begin {shown(text)} is in the past; {_HOW}")
        return now.timestamp() + after_s
    day, clock = (*re.split("[T ]", typed, maxsplit=1), "")[:2] if _has_date(typed) else ("", typed)
    try:
        return _moment(day, clock.strip(), now).timestamp()
    except (ValueError, OverflowError):
        raise BadInput(f"invalid --begin {shown(text)}; {_HOW}") from None


def from_now_s(typed: str, what: str) -> float | None:
    """Return how many seconds from now a time such as now+1hour or now-2days is; None if it is of another form."""
    match = _NOW.fullmatch(typed)
    if match is None:
        return None
    unit = (match["unit"] or "").lower()
    factor = _UNITS.get(unit if unit in _UNITS else unit.removesuffix("s"))
    if factor is None:
        raise BadInput(f"invalid {what} {shown(typed)}: {shown(match['unit'])} is not a unit; {_HOW}")
    return (-1 if match["sign"] == "-" else 1) * int(match["count"] or 0) * float(factor)


def _has_date(typed: str) -> bool:
    word = re.split("[T ]", typed, maxsplit=1)[0].lower()
    return word in ("today", "tomorrow") or _date(word) is not None


def _moment(day: str, clock: str, now: datetime) -> datetime:
    hour = _hour(clock) if clock else (0, 0, 0)
    if not day:
        found = now.replace(hour=hour[0], minute=hour[1], second=hour[2], microsecond=0)
        return found if found > now else found + timedelta(days=1)
    if day.lower() in ("today", "tomorrow"):
        date = now + timedelta(days=day.lower() == "tomorrow")
        # Slurm starts a job of "tomorrow" at midnight, and a job of "today" at once.
        if day.lower() == "today" and not clock:
            return now
        return date.replace(hour=hour[0], minute=hour[1], second=hour[2], microsecond=0)
    read = _date(day)
    if read is None:
        raise ValueError(day)
    date, has_year = read
    found = date.replace(hour=hour[0], minute=hour[1], second=hour[2], tzinfo=now.tzinfo)
    if not has_year:
        found = found.replace(year=now.year)
        found = found if found > now else found.replace(year=now.year + 1)
    return found


def _date(word: str) -> tuple[datetime, bool] | None:
    for form in _DATES:
        try:
            # A leap year, so that 02/29 is a day.
            has_year = "y" in form.lower()
            return datetime.strptime(word if has_year else f"2000 {word}", form if has_year else f"%Y {form}"), has_year
        except ValueError:
            continue
    return None


def _hour(clock: str) -> tuple[int, int, int]:
    if clock.lower() in _NAMED:
        return _NAMED[clock.lower()], 0, 0
    match = _CLOCK.fullmatch(clock)
    if match is None:
        raise ValueError(clock)
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(clock)
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, int(match["minute"]), int(match["second"] or 0)
