"""One frame of `grass top` as plain text: for pipes, scripts and `watch`."""

from __future__ import annotations

import os

from grassq.cli import job_text, render
from grassq.cli.top.feeds.asker import Daemon
from grassq.cli.top.filters import parse_filter
from grassq.cli.top.frame import Glyphs, HeaderWords, Line, device_lines, header_line, plain
from grassq.cli.top.job_pages import ACTIVE, RUNNING, read, resolve, segments_of
from grassq.cli.top.job_rows import Look, Widths, table_lines
from grassq.cli.top.job_window import JobWindow
from grassq.net.encoding import query

#: Rows of jobs, and lines of devices.
ROWS = 40
DEVICE_LINES = 12
#: The width in a pipe, where nothing says how wide the reader is.
PIPE_COLUMNS = 120


def print_frame(daemon: Daemon, glyphs: Glyphs, filter_: str, columns: tuple[str, ...]) -> int:
    """Print one frame; return 0, the exit code."""
    width = render.width() if os.isatty(1) else PIPE_COLUMNS
    with daemon.client() as client:
        overview = client.show()
        wanted = resolve(client, parse_filter(filter_), [queue["name"] for queue in overview.get("queues", [])])
        found = read(
            lambda asked: client.get("jobs" + query(asked)),
            segments_of(wanted, ACTIVE),
            None,
            down=True,
            count=ROWS,
            look=True,
        )
    running = [job for job in overview.get("jobs", []) if job.get("state") in RUNNING]
    where = daemon.broker or ", ".join(str(worker.get("name")) for worker in overview.get("workers", [])) or "no worker"
    header = HeaderWords(where, str(overview.get("version")), is_live=True, since="")
    window = JobWindow()
    window.replace(found, from_start=True)
    look = Look(job_text.now(), glyphs)
    lines: list[Line] = [header_line(header, overview, width, glyphs)]
    lines += device_lines(overview, running, width, DEVICE_LINES, glyphs)
    lines += [[]]
    lines += table_lines(window, Widths(columns), look, width, ROWS + 1, "no jobs", has_cursor=False)
    if not found.is_end:
        lines.append([(f" (the first {len(found.rows)}; `grass show all` prints every job)", "")])
    return render.text("".join(plain(line) + "\n" for line in lines))
