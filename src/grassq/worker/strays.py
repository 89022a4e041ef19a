"""Run dirs without a stored job, and the commands that submit them again, for `grass doctor`."""

from __future__ import annotations

import os
import shlex

from grassq.core.model import AttemptId
from grassq.run import rundir

#: Run dirs that are checked for the marker, newest job first.
LOOKED_AT_MAX = 10_000
#: Run dirs whose command is read; the others are only named.
READ_MAX = 100


def of_jobs(home: str, jobs: list[int]) -> list[dict[str, str]]:
    """Return the newest run dir of each of these jobs, none of which is stored."""
    newest = [(job, next(iter(rundir.numbers(f"{home}/jobs/{job}")), 0)) for job in jobs]
    return _described(home, newest, "no job of that id is stored")


def unrecorded(home: str) -> list[dict[str, str]]:
    """Return the run dirs that a restored broker has no record of."""
    found = rundir.attempts(home, LOOKED_AT_MAX)
    marked = [attempt for attempt in found if rundir.is_marked(rundir.attempt_dir(home, *attempt), rundir.UNRECORDED)]
    return _described(home, marked, "the broker's store was restored from a backup and has no record of this attempt")


def _described(home: str, attempts: list[AttemptId], why: str) -> list[dict[str, str]]:
    strays = []
    for index, (job, attempt) in enumerate(attempts):
        again = submit_again(rundir.attempt_dir(home, job, attempt)) if index < READ_MAX else ""
        strays.append({"path": f"jobs/{job}/{attempt}" if attempt else f"jobs/{job}", "why": why, "again": again})
    return strays


def submit_again(path: str) -> str:
    """Return the command that submits the words of a run dir again; "" if its spec cannot be read.

    Placeholders are filled in already, and the words begin with the queue's own command if it has one.
    """
    try:
        spec = rundir.read_spec(path)
    except (OSError, ValueError):
        return ""
    queue = os.fsdecode(spec.env.get(b"GRASS_QUEUE", b"default"))
    words = shlex.join(os.fsdecode(word) for word in spec.argv)
    return f"cd {shlex.quote(os.fsdecode(spec.cwd))} && grass enqueue {shlex.quote(queue)} -- {words}"
