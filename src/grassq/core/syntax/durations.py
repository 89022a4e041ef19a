"""Durations as people write them. Light to import, because the command line reads them too."""

from __future__ import annotations

import re

from grassq.core.names import shown
from grassq.errors import BadInput

DURATION_MAX_S = 365 * 86_400.0
ALWAYS = "always"

_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration_s(text: str, what: str = "a duration") -> float:
    """Read `90s`, `5m`, `1h30m` or `7d` as seconds; a number needs its unit, save 0."""
    if text == "0":
        return 0.0
    if not re.fullmatch(f"(?:{_PART.pattern}){{1,4}}", text):
        raise BadInput(f"{what} needs a number and its unit, such as 90s, 5m, 1h30m or 7d, not {shown(text)}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > DURATION_MAX_S:
        raise BadInput(f"{what} may be at most 365d, not {shown(text)}")
    return seconds


def patience_s(text: str) -> float:
    """Read how long a broker may be away: a duration, or `always`."""
    return float("inf") if text == ALWAYS else duration_s(text, "--patient")
