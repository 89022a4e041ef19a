"""Prints all about one job, a line for each thing that is known."""

from __future__ import annotations

from grassq.cli import job_text, render
from grassq.cli.listing import bars
from grassq.cli.listing.columns import directory, plain_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def one_job_lines(job: Mapping[str, Any], now: float) -> list[str]:
    """Return what is known about one job as lines."""
    values = {
        "job": job.get("id"),
        "name": job.get("name"),
        "project": job.get("project"),
        "tags": job_text.pairs(job.get("tags")),
        "queue": job.get("queue"),
        "state": plain_state(job),
        "reason": job.get("reason"),
        "result": job_text.result(job),
        "error": job.get("error"),
        "cause": job.get("cause"),
        "command": job_text.command(job),
        "wrapped": job.get("wrap"),
        "cwd": directory(job),
        **job_text.files(job),
        "limits": job_text.limits(job),
        "request": job_text.amounts(job.get("request")),
        "holds": job_text.holds(job.get("allocation")),
        "worker": job.get("worker"),
        "pid": job.get("pid"),
        "attempt": job_text.attempts(job),
        "after": job_text.after(job),
        "starts": job_text.clock(job.get("not_before"), now),
        "priority": job.get("priority"),
        "created": _when(job.get("created"), now),
        "started": _when(job.get("started"), now),
        "finished": _when(job.get("finished"), now),
        "suspended": _when(job.get("suspended_since"), now),
        "took": job_text.took(job, now),
        "rerun of": job.get("rerun_of"),
        "progress": bars.progress_text(job),
        "last line": bars.last_line(job),
    }
    lines = [f"{label:<9} {value}" for label, value in values.items() if value not in (None, "")]
    return [render.clean(line) for line in lines]


def _when(text: str | None, now: float) -> str:
    at = job_text.clock(text, now)
    return f"{at} ({job_text.ago(text, now)})" if at else ""
