"""Draws bars, and says in short words how far a job is."""

from __future__ import annotations

from grassq.cli import job_text, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The columns of the bar of a job and of a sweep.
JOB_BAR, SWEEP_BAR = 8, 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(fraction: float, size: int, *, ascii: bool) -> str:
    """Return a bar of `size` columns; a fraction above 0 is seen, and a bar is full only from 1 on."""
    pieces = 1 if ascii else 8
    # What is no number is nothing.
    filled = max(1, int(min(fraction, 1.0) * size * pieces)) if fraction > 0 else 0
    # Near 1 the product may be rounded up to the whole.
    filled = min(filled, size * pieces - 1) if fraction < 1 else filled
    if ascii:
        return ("#" * filled).ljust(size, ".")
    full, rest = divmod(filled, pieces)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(size, "░")


def percent(fraction: float) -> str:
    """Return a fraction as `34%`; only what is whole is `100%`."""
    if fraction >= 1:
        return "100%"
    return f"{min(round(100 * fraction), 99) if fraction > 0 else 0}%"


def progress_text(job: Mapping[str, Any], *, with_bar: bool = True) -> str:
    """Return how far a job is: `███░░░░░ 34% 26m left`; "" if it is not known."""
    told = job.get("progress")
    if not isinstance(told, dict):
        return ""
    fraction, done, left_s = told.get("fraction"), told.get("done"), told.get("left_s")
    if not isinstance(fraction, int | float):
        # A bar without an end.
        return f"{done:.0f} done" if isinstance(done, int | float) else ""
    words = [bar(fraction, JOB_BAR, ascii=not render.is_utf8())] if with_bar else []
    words.append(f"{percent(fraction):>4}" if with_bar else percent(fraction))
    if isinstance(left_s, int | float) and fraction < 1:
        words.append(f"{job_text.span(left_s)} left")
    return " ".join(words)


def last_line(job: Mapping[str, Any]) -> str:
    """Return the last line of the log of a job, without the bar in it: the numbers around the bar say as much."""
    line = str(job.get("last_line") or "")
    at = line.find("%|")
    end = line.find("|", at + 2) if at >= 0 else -1
    return f"{line[: at + 1]} {line[end + 1 :].lstrip()}" if end > 0 else line
