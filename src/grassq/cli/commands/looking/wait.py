"""wait: waits until jobs are done."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.commands.looking.logs import never_started
from grassq.cli.connect import add_patient, connect
from grassq.cli.progress import progress
from grassq.core.syntax.durations import duration_s
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, EXIT_TIMED_OUT, Unreachable
from grassq.net.cannot_start import CannotStart
from grassq.net.client import WAIT_AT_ONCE, ApiClient, compact
from grassq.net.encoding import FINAL_STATES
from grassq.net.retry import AWAY_S

POLL_S = 20.0
#: With a progress bar, or with --any.
SHORT_POLL_S = 1.0

#: At most this many jobs that did not succeed are named; the others are counted.
REMARKS_MAX = 20

Jobs = dict[int, Mapping[str, Any]]


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `wait`."""
    which = "the jobs; `all` (the default), a queue and a name mean jobs that have not ended yet"
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help=which)
    parser.add_argument("--all", action="store_const", const=["all"], default=[], help="the same as `all`")
    help_ = "give up after this time, such as 90s or 2h, with exit code 124; a bare number counts seconds"
    timeout = partial(duration_s, what="--timeout", unit="s")
    parser.add_argument("--timeout", metavar="DURATION", type=timeout, default=job_text.LONGEST_S, help=help_)
    parser.add_argument("--any", action="store_true", help="wait until one of the jobs is done")
    parser.add_argument("--strict", action="store_true", help="end with exit code 5 if a job cannot start")
    add_patient(parser)
    parser.add_argument("--json", action="store_true", help="print the jobs as a JSON document at the end")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no remarks, only errors")
    parser.set_defaults(run=wait)


def wait(arguments: argparse.Namespace) -> int:
    """Wait for the selected jobs; return 0 if all succeeded, else 1."""
    deadline = monotonic() + arguments.timeout
    is_shown = os.isatty(2) and not arguments.json and not arguments.quiet
    poll_s = SHORT_POLL_S if arguments.any or is_shown else POLL_S
    selectors = arguments.selectors + arguments.all or ["all"]
    blocked = CannotStart(None if arguments.quiet else render.notes, strict=arguments.strict)

    def look(jobs: Jobs) -> None:
        blocked.tell(jobs.values())
        tell(*_counts(jobs))

    # While the broker is away, --timeout goes on.
    away_s = min(arguments.patient, max(arguments.timeout, AWAY_S))
    with connect(arguments.broker, away_s=away_s) as client, progress("waiting", is_shown=is_shown) as tell:
        try:
            jobs, finished = _until_done(client, selectors, deadline, any_one=arguments.any, poll_s=poll_s, look=look)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("no longer waiting; the jobs are not changed") from None
    done = [job for job in jobs.values() if job.get("state") in FINAL_STATES]
    counted = done if arguments.any else _last_runs(done)
    if arguments.json:
        render.document({"done": finished, "jobs": list(jobs.values())})
    elif not arguments.quiet:
        render.notes(_remarks([job for job in counted if job.get("state") != "succeeded"]))
        if not jobs and os.isatty(2):
            render.notes([f"nothing to wait for: no job of {' '.join(selectors)} is unfinished"])
    if not finished:
        left = f"{len(jobs) - len(done)} of {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"
        time = f"{arguments.timeout:g}s" if arguments.timeout < 60 else job_text.span(arguments.timeout)
        render.error(f"timed out after {time}; {left} unfinished")
        return EXIT_TIMED_OUT
    return EXIT_OK if all(job.get("state") == "succeeded" for job in counted) else EXIT_JOB_FAILED


def _until_done(
    client: ApiClient,
    selectors: list[str],
    deadline: float,
    *,
    any_one: bool,
    poll_s: float,
    look: Callable[[Jobs], None],
) -> tuple[Jobs, bool]:
    """Poll until the jobs of the first answer are done; return them and whether all are done."""
    jobs: Jobs = {job["id"]: job for job in client.wait(selectors, timeout_s=0)["jobs"]}
    # Short at first, so that a job that cannot start after all is named soon.
    most_s, poll_s = poll_s, min(poll_s, SHORT_POLL_S)
    while True:
        look(jobs)
        pending = [id_ for id_, job in jobs.items() if job.get("state") not in FINAL_STATES]
        if not pending or (any_one and len(pending) < len(jobs)):
            return jobs, True
        left = deadline - monotonic()
        if left <= 0:
            return jobs, False
        # To wait for all jobs, one part of the ids after the other is enough; for any job, every part is asked.
        asked = compact(pending) if any_one else compact(pending[:WAIT_AT_ONCE])[:1]
        began = monotonic()
        for selector in asked:
            try:
                answer = client.wait([selector], timeout_s=min(left, poll_s), any_one=any_one)
            except Unreachable:
                if monotonic() < deadline:
                    raise
                return jobs, False
            jobs.update({job["id"]: job for job in answer["jobs"]})
        poll_s = min(2 * poll_s, most_s)
        if monotonic() - began < 0.01:
            sleep(0.02)  # no busy loop if answers come at once and change nothing


def _last_runs(jobs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the last run of each job: a job does not count if its rerun is among the jobs."""
    last = {job.get("rerun_of") or job["id"]: job for job in sorted(jobs, key=lambda job: int(job["id"]))}
    return list(last.values())


def _counts(jobs: Jobs) -> tuple[int, int, str]:
    states = Counter(str(job.get("state")) for job in jobs.values())
    words = ", ".join(f"{count} {state}" for state, count in states.items() if state != "succeeded")
    return sum(states[state] for state in FINAL_STATES), len(jobs), words


def _remarks(jobs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each of the first jobs that did not succeed, and one with the number of the others."""
    for job in jobs[:REMARKS_MAX]:
        result, state, id_ = job_text.result(job), job.get("state"), job.get("id")
        how = f" ({result})" if result and result != state else ""
        yield f"job {id_} {state}{how}; grass {'why' if never_started(job) else 'log'} {id_}"
    if more := Counter(str(job.get("state")) for job in jobs[REMARKS_MAX:]):
        counts = ", ".join(f"{count} {state}" for state, count in more.items())
        yield f"and {counts} more; `grass show {','.join(more)}` lists them"
