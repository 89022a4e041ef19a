"""The lines of a log that a command asks for: the first, the last, a range, those since a time, those that match."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.logs.pager import PagedOutput
from grassq.cli.logs.several import Job, prefixes, streams_of
from grassq.cli.logs.text import line_text, safe
from grassq.core.term.style import RESET
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, NotFound
from grassq.net import log_lines
from grassq.net.client import ApiClient

#: Lines in a JSON document.
JSON_LINES_MAX = 200_000
#: How many last lines the daemon gives at once.
LAST_AT_ONCE = 5_000
_RANGE = re.compile(r"([0-9]{1,15})?(-)?([0-9]{1,15})?")
_HIT = "\x1b[1;31m"


class LineSelection:
    """What was asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        asked = vars(arguments)
        self.tail: int | None = asked["tail"]
        self.head: int | None = asked.get("head")
        self.grep: str | None = asked.get("grep")
        self.range = None if asked.get("lines") is None else _range(asked["lines"])
        now = job_text.now()
        self.since = None if asked.get("since") is None else now - job_text.since_s(asked["since"], now)
        self.numbers: bool = asked.get("numbers", False)
        self._ignores_case: bool = asked.get("ignore_case", False)
        self._is_raw: bool = asked["raw"]
        self._allows_pager = not asked.get("no_pager", False)
        chosen = (self.tail, self.head, self.grep, self.range, self.since)
        if sum(each is not None for each in chosen) > 1:
            raise BadInput(
                "--tail, --head, --lines, --since and --grep choose lines in different ways; take one of them"
            )
        if self.head is not None and self.head < 0:
            raise BadInput("--head takes a count of lines, 0 or more")
        if self.grep == "":
            raise BadInput("--grep takes a regular expression")
        if self._is_raw and self.is_partial:
            raise BadInput("--raw prints bytes as they were written; of the options that choose lines it takes --tail")

    @property
    def is_partial(self) -> bool:
        """Whether more than the last lines is asked for, which only a log as it is now can answer."""
        chosen = (self.head, self.grep, self.range, self.since)
        return self.numbers or any(each is not None for each in chosen)

    @property
    def wants_lines(self) -> bool:
        """Whether lines are asked for, not the bytes of the log."""
        return not self._is_raw and (self.is_partial or self.tail is not None)

    def paged(self) -> PagedOutput:
        """Return where lines are printed."""
        return PagedOutput(allowed=self._allows_pager)

    def print(self, client: ApiClient, jobs: list[Job], arguments: argparse.Namespace) -> int:
        """Print the lines of each job; exit code 1 if --grep finds nothing."""
        if self._is_raw:
            raise BadInput("--raw takes one job")
        if arguments.attempt is not None and len(jobs) > 1:
            raise BadInput("--attempt takes one job")
        logs = [(job, stream) for job in jobs for stream in _streams(job, arguments.stream)]
        asked = {"attempt": arguments.attempt}
        if len(jobs) == 1 and not jobs[0].get("attempt"):
            id_, state = jobs[0]["id"], jobs[0].get("state")
            raise NotFound(f"job {id_} has not started ({state}), so it has no log; `grass why {id_}` says more")
        if arguments.json:
            return self._print_documents(client, logs, asked)
        coloured = os.isatty(1) and render.has_colours()
        before = prefixes(jobs, coloured=coloured) if len(jobs) > 1 else {}
        count = 0
        with self.paged() as paged:
            for job, stream in logs:
                for line in self._lines(client, job, stream, asked):
                    count += 1
                    number = f"{line['n'] or '?'}:" if self.numbers else ""
                    paged.line(before.get(job["id"], "") + number + _text(line, coloured))
        return EXIT_OK if count or self.grep is None else EXIT_JOB_FAILED

    def _print_documents(self, client: ApiClient, logs: list[tuple[Job, str]], asked: dict[str, Any]) -> int:
        found = []
        for job, stream in logs:
            lines = []
            for line in self._lines(client, job, stream, asked):
                lines.append(line)
                if len(lines) > JSON_LINES_MAX:
                    raise BadInput(f"these are more than {JSON_LINES_MAX:,} lines; use --tail N or --lines A-B")
            found.append({"id": job["id"], "attempt": asked["attempt"] or job.get("attempt"), "stream": stream})
            found[-1]["lines"] = lines
        render.document(found if len(found) > 1 else found[0])
        return EXIT_OK if self.grep is None or any(each["lines"] for each in found) else EXIT_JOB_FAILED

    def _lines(self, client: ApiClient, job: Job, stream: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        id_, log = int(job["id"]), {"stream": stream, **asked}
        if not job.get("attempt"):
            return
        if self.grep is not None:
            yield from log_lines.search(client, id_, self.grep, ignore_case=self._ignores_case, **log)
        elif self.tail is not None:
            yield from _last(client, id_, self.tail, log)
        elif self.head is not None:
            yield from log_lines.lines(client, id_, 1, self.head, **log)
        elif self.since is not None:
            yield from self._recent(client, job, log)
        else:
            first, last = self.range or (1, None)
            yield from log_lines.lines(client, id_, first, last, **log)

    def _recent(self, client: ApiClient, job: Job, log: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the lines that were written since a time, as far as the daemon has seen when lines were written."""
        assert self.since is not None
        started, ended = job_text.seconds(job.get("started")), job_text.seconds(job.get("finished"))
        if ended is not None and ended < self.since:
            return
        answer = log_lines.ask_lines(client, job["id"], since=int(self.since), count=1, **log)
        first = answer["lines"][0]["n"] if answer["lines"] else 1
        if answer.get("seen") is None and (started is None or started < self.since):
            unknown = "this log was not read before, so it is not known when its lines were written"
            render.notes([f"job {job['id']}: {unknown}; all lines follow"])
        yield from log_lines.lines(client, int(job["id"]), first, None, **log)


def _last(client: ApiClient, job: int, count: int, log: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if count == 0:
        return
    if count <= LAST_AT_ONCE:
        yield from log_lines.ask_lines(client, job, line=-count, count=count, **log)["lines"]
        return
    for _ in log_lines.lines(client, job, 1 << 49, None, **log):
        pass  # the daemon indexes the whole log, and says so
    total = int(log_lines.ask_lines(client, job, line=-1, **log)["total"] or 0)
    yield from log_lines.lines(client, job, max(1, total - count + 1), None, **log)


def _text(line: dict[str, Any], coloured: bool) -> str:
    if "spans" in line:
        return line_text(line, coloured=coloured)
    text = safe(str(line.get("text", "")))
    begin, end = line.get("at", (0, 0))
    if coloured and end > begin:
        text = text[:begin] + _HIT + text[begin:end] + RESET + text[end:]
    return text + (f" [{line['left_out']:,} more characters]" if line.get("left_out") else "")


def _range(text: str) -> tuple[int, int | None]:
    found = _RANGE.fullmatch(text)
    if found is None or not (found[1] or found[3]):
        raise BadInput(f"--lines takes a range such as 5-10, 5- or 5, not {text[:40]!r}")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else None if found[2] else first
    if first < 1 or (last is not None and last < first):
        raise BadInput(f"--lines {text}: lines count from 1, and the last comes behind the first")
    return first, last


def _streams(job: Job, stream: str | None) -> list[str]:
    return [stream] if stream else streams_of(job)
