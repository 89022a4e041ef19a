"""How values are written in documents: times, and words that may be no text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from time import localtime, strftime
from typing import overload

from grassq.core.model import CLOCK_MAX

#: Characters of a command in a list that has many jobs.
COMMAND_CHARS_MAX = 8_000
CUT = "…"
#: A time that is further away than this is written with its day.
CLOCK_ALONE_S = 20 * 3600.0


@overload
def timestamp(at: float) -> str: ...


@overload
def timestamp(at: float | None) -> str | None: ...


def timestamp(at: float | None) -> str | None:
    """Return a time in RFC 3339, UTC; a time beyond the year 9999, which an earlier release stored, as its end."""
    if at is None:
        return None
    at = min(max(at, 0.0), CLOCK_MAX)
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_text(at: float, now: float) -> str:
    """Return a time as people on this machine say it: the hour, and the day if it is not about today."""
    return strftime("%H:%M" if abs(at - now) < CLOCK_ALONE_S else "%b %d %H:%M", localtime(at))


def maybe_text(word: bytes | None) -> str | None:
    """Return a word as text; None if there is none."""
    return None if word is None else word_text(word)


def word_text(word: bytes) -> str:
    """Return a word as text; bytes that are no UTF-8 become escapes."""
    return word.decode("utf-8", "backslashreplace")


def short_command(words: Sequence[str]) -> list[str]:
    """Return the words of a command, cut behind COMMAND_CHARS_MAX characters: a job may have megabytes of them."""
    left = COMMAND_CHARS_MAX
    shown: list[str] = []
    for word in words:
        if len(word) >= left:
            return [*shown, word[:left] + CUT]
        shown.append(word)
        left -= len(word) + 1
    return shown
