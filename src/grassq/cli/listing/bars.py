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


def bar(fraction: float, size: int) -> str:
    """Return a bar of `size` columns that is filled up to `fraction`."""
    fraction = min(max(fraction, 0.0), 1.0)
    if not render.is_utf8():
        return ("#" * int(fraction * size)).ljust(size, ".")
    full, rest = divmod(int(fraction * size * 8), 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn + "░" * (size - len(drawn))


def progress_text(job: Mapping[str, Any], *, with_bar: bool = True) -> str:
    """Return how far a job is: `███░░░░░ 34% 26m left`; "" if it is not known."""
    told = job.get("progress")
    if not isinstance(told, dict):
        return ""
    fraction, done, left_s = told.get("fraction"), told.get("done"), told.get("left_s")
    if not isinstance(fraction, int | float):
        # A bar without an end.
        return f"{done:.0f} done" if isinstance(done, int | float) else ""
    words = [bar(fraction, JOB_BAR)] if with_bar else []
    words.append(f"{int(100 * fraction):>3}%" if with_bar else f"{int(100 * fraction)}%")
    if isinstance(left_s, int | float) and fraction < 1:
        words.append(f"{job_text.span(left_s)} left")
    return " ".join(words)


def last_line(job: Mapping[str, Any]) -> str:
    """Return the last line of the log of a job, without the bar in it: the numbers around the bar say as much."""
    line = str(job.get("last_line") or "")
    at = line.find("%|")
    end = line.find("|", at + 2) if at >= 0 else -1
    return f"{line[: at + 1]} {line[end + 1 :].lstrip()}" if end > 0 else line
