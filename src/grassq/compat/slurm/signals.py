"""Sends a signal to the processes of a job that runs on this machine."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from grassq.compat.slurm.slurm_jobs import Job
from grassq.compat.slurm.submission.starter import SCRIPT_NAME
from grassq.errors import Refused

#: The most processes of a job that are told.
PROCESSES_MAX = 10_000


def send_signal(job: Job, name: str, *, to_script: bool, to_others: bool) -> None:
    """Send a signal to the script of a job, or to everything that it has started.

    Raise Refused if the job runs on another machine: its processes are out of reach.
    """
    pid = int(job.get("pid") or 0)
    if not pid or not _is_of(pid, int(job["id"])):
        raise Refused(
            f"job {job['id']} has no process on this machine, so that only `scancel` without a signal ends it"
        )
    number = signal.Signals[f"SIG{name}"]
    # A command of srun is no script: it gets every signal.
    is_told = to_script or SCRIPT_NAME not in _read(pid, "cmdline")
    for each in [*([pid] if is_told else []), *(_descendants(pid) if to_others else [])]:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def _is_of(pid: int, job: int) -> bool:
    """Tell whether a process is of this job: a number alone may be that of another machine's process."""
    return f"GRASS_JOB_ID={job}" in _read(pid, "environ").split("\0")


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    left = [pid]
    while left and len(found) < PROCESSES_MAX:
        parent = left.pop()
        for thread in _threads(parent):
            children = [int(word) for word in _read(parent, f"task/{thread}/children").split()]
            found += children
            left += children
    return found


def _threads(pid: int) -> list[str]:
    with suppress(OSError):
        return [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _read(pid: int, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "surrogateescape")
    return ""
