"""Durations as people write them. Light to import, because the command line reads them too."""

from __future__ import annotations

import re

from grassq.core.names import shown
from grassq.errors import BadInput

DURATION_MAX_S = 365 * 86_400.0
ALWAYS = "always"

#: The spellings of each unit and its seconds; the first spelling is the short one.
_UNITS = {
    ("s", "sec", "secs", "second", "seconds"): 1,
    ("m", "min", "mins", "minute", "minutes"): 60,
    ("h", "hr", "hrs", "hour", "hours"): 3_600,
    ("d", "day", "days"): 86_400,
    ("w", "week", "weeks"): 604_800,
}
_SECONDS = {spelling: seconds for spellings, seconds in _UNITS.items() for spelling in spellings}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER}) ?([a-z]{{1,7}}) ?")
_PARTS_MAX = 5
#: Hours, minutes and seconds, as Slurm and clocks write them.
_CLOCK = re.compile(r"([0-9]{1,4}):([0-9]{1,2}):([0-9]{1,2})")


def duration_s(text: str, what: str = "a duration", *, unit: str = "") -> float:
    """Read `90s`, `5m`, `1h30m`, `7d`, `1week` or `2 days` as seconds; `unit` is the unit of a number without one."""
    if text == "0":
        return 0.0
    typed = text.strip().lower()
    if re.fullmatch(_NUMBER, typed):
        if not unit:
            raise BadInput(f"{what} {typed} has no unit: write {typed}d for days, or {typed}h, {typed}m, {typed}s")
        typed += unit
    parts = _PART.findall(typed)
    is_whole = re.fullmatch(f"(?:{_PART.pattern}){{1,{_PARTS_MAX}}}", typed) is not None
    if not is_whole or any(name not in _SECONDS for _, name in parts):
        instead = ", not " + shown(text)
        if clock := _CLOCK.fullmatch(typed):
            instead = f"; write {int(clock[1])}h{int(clock[2])}m{int(clock[3])}s for {typed}"
        raise BadInput(f"{what} needs a number and its unit, such as 90s, 5m, 1h30m or 7d{instead}")
    seconds = sum(float(number) * _SECONDS[name] for number, name in parts)
    if seconds > DURATION_MAX_S:
        raise BadInput(f"{what} may be at most 365d, not {shown(text)}")
    return seconds


def patience_s(text: str) -> float:
    """Read how long a broker may be away: a duration, or `always`."""
    return float("inf") if text == ALWAYS else duration_s(text, "--patient", unit="s")
