"""Jobs as people see them: a line each, and a table for notebooks. What jobs are called is foreign text."""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from grassq.core.outcome import in_words
from grassq.core.printable import printable
from grassq.errors import GrassError
from grassq.net.client import compact
from grassq.sdk.waiting import by_client

if TYPE_CHECKING:
    from grassq.sdk.job import Job

#: The rows of a table; more jobs are counted.
ROWS_MAX = 100
#: The characters of one cell.
CELL_CHARS = 80
_HEADERS = ("id", "name", "queue", "state", "ended with", "command")


def glance(jobs: Iterable[Job]) -> None:
    """Learn how jobs are now, if the daemon answers at once: to look at a job must not wait, fail or start a daemon."""
    unknown = islice((job for job in jobs if not job._is_whole or not job._is_over), ROWS_MAX)
    for client, some in by_client(unknown).items():
        handles = {job.id: job for job in some}
        for selector in compact(handles)[:1]:
            with suppress(GrassError, OSError, LookupError, TypeError, ValueError):
                for info in client._requests.glance([selector], limit=ROWS_MAX):
                    handles[int(info["id"])]._learn(info)


def line(job: Job) -> str:
    """Return a job in a few words: `<Job 8 running 'fit' in exp1>`."""
    info = job._info
    name = f" {info['name']!r}" if info.get("name") else ""
    where = f" in {printable(str(info['queue']), CELL_CHARS)}" if info.get("queue") else ""
    how = _how(job)
    return f"<Job {job.id} {_state(job)}{f' ({how})' if how else ''}{name}{where}>"


def lines(jobs: Sequence[Job]) -> list[str]:
    """Return each job in a few words; of many jobs the first ones, and the number of the others."""
    more = [f"... and {len(jobs) - ROWS_MAX:,} more"] if len(jobs) > ROWS_MAX else []
    return [*map(line, jobs[:ROWS_MAX]), *more]


def table(jobs: Sequence[Job]) -> str:
    """Return jobs as an HTML table."""
    rows = "".join(f"<tr>{_cells('td', _row(job))}</tr>" for job in jobs[:ROWS_MAX])
    more = f"<p>and {len(jobs) - ROWS_MAX:,} more jobs</p>" if len(jobs) > ROWS_MAX else ""
    return f"<table><thead><tr>{_cells('th', _HEADERS)}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(job: Job) -> tuple[str, ...]:
    info = job._info
    words = [str(word) for word in info.get("command") or []]
    command = " ".join(words) if info.get("shell") else shlex.join(words)
    return (
        str(job.id),
        str(info.get("name") or ""),
        str(info.get("queue") or ""),
        _state(job),
        _how(job),
        command,
    )


def _state(job: Job) -> str:
    return printable(job._known_state or "submitted", CELL_CHARS)


def _how(job: Job) -> str:
    """Return how a job that did not succeed ended."""
    info, state = job._info, job._known_state
    how = in_words(info.get("outcome"), info.get("exit_code"), info.get("signal"), short=True)
    return how if state in ("failed", "cancelled") and how != state else ""


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(printable(text, CELL_CHARS))}</{tag}>" for text in texts)
