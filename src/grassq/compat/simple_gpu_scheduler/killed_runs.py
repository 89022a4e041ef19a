"""A file about each call of simple_gpu_scheduler, and the report about calls that were killed.

The file holds the process id, the last job id, and the lines in flight: lines that were read from stdin but not yet
confirmed as stored. The file is locked while the call runs and removed at a clean end, so an unlocked file
belongs to a killed call. The daemon knows the result of every stored line.
"""

# Paths are plain text: importing pathlib costs more time than this whole module.
# ruff: noqa: PTH103, PTH104, PTH108, PTH208

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from grassq.cli import job_text, render
from grassq.compat.messages import Messages
from grassq.errors import GrassError
from grassq.net.client import ApiClient
from grassq.net.encoding import FINAL_STATES

FOLDER = "sgs"
#: Suffix of a file whose header cannot be read.
UNREADABLE = ".unreadable"
#: Files read by one call, and bytes of lines in flight read from one file (more than one read from stdin).
FILES_MAX = 100
LINES_MAX = 8 << 20
#: Process id, start in seconds since 1970, 0 (earlier releases: the first job), last job, bytes of lines in flight.
#: The length is fixed.
_HEADER = b"%10d %12d %18d %18d %8d\n"
_HEADER_SIZE = len(_HEADER % (0, 0, 0, 0, 0))

#: Commands listed one by one; `grass show` lists the others.
LISTED_MAX = 20
#: Jobs per request, and requests per report. A report about a call with more jobs covers the last ones.
PAGE_JOBS = 500
PAGES_MAX = 200
#: Characters of a command that are shown.
SHOWN_MAX = 200
#: The order of states in a report; every other state counts as waiting.
ORDER = ("failed", "cancelled", "running", "placed", "waiting", "succeeded")

Job = dict[str, Any]


class RunFile:
    """The file about this call. If the file cannot be written, `say` gets one message and the call goes on."""

    def __init__(self, home: str, queue: str, say: Callable[[str], None]) -> None:
        self._path = f"{home}/{FOLDER}/{queue}"
        self._say = say
        self._has_failed = False
        self._began = int(time.time())
        #: The id of the last stored job; 0 before the first submission.
        self._last = 0
        self._lines = b""
        self._descriptor = -1
        try:
            os.makedirs(f"{home}/{FOLDER}", 0o700, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            self._write(b"")
        except OSError as error:
            self._tell(error)

    def put_in_flight(self, lines: bytes) -> None:
        """Replace the lines in flight."""
        self._lines = lines
        if self._descriptor < 0:
            return
        try:
            self._write(lines)
        except OSError as error:
            # Lines may be half written: the header must not count them.
            with suppress(OSError):
                self._write(b"")
            self._tell(error)

    def confirm(self, last: int = 0) -> None:
        """Clear the lines in flight: they are stored up to this job, or surely not stored."""
        self._last = last or self._last
        self.put_in_flight(b"")

    def close(self) -> None:
        """Remove the file; with lines in flight it stays, and the next call reports them."""
        if self._descriptor < 0 or self._lines:
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            os.close(self._descriptor)
        except OSError as error:
            self._tell(error)

    def _write(self, lines: bytes) -> None:
        content = _HEADER % (os.getpid(), self._began, 0, self._last, len(lines)) + lines
        written = 0
        while written < len(content):
            # A full disk may take a part first; the next write then fails with the reason.
            written += os.pwrite(self._descriptor, content[written:], written)

    def _tell(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            then = "if this call is killed, the next call may not report its commands"
            self._say(f"the file about this call cannot be written ({error.strerror}); {then}")


class KilledRun(NamedTuple):
    """The file of a killed call, as read."""

    path: str
    #: The name of the call's queue.
    queue: str
    pid: int
    began: int
    last: int
    lines: bytes


def report_killed_runs(client: ApiClient, messages: Messages) -> None:
    """Report every killed call, the oldest first, and remove its file once all of its jobs have ended."""
    try:
        with ExitStack() as locks:
            for run in sorted(_killed_runs(client.home, messages, locks), key=lambda run: run.began):
                if _report(client, run, messages):
                    os.unlink(run.path)
    except (GrassError, OSError) as error:
        messages.say(f"an earlier call cannot be reported now: {error}")


def _killed_runs(home: str, messages: Messages, locks: ExitStack) -> Iterator[KilledRun]:
    """Yield the killed calls; `locks` keeps other processes from reporting the same calls."""
    folder = f"{home}/{FOLDER}"
    try:
        names = sorted(name for name in os.listdir(folder) if not name.endswith(UNREADABLE))
    except FileNotFoundError:
        return
    for path in [f"{folder}/{name}" for name in names[:FILES_MAX]]:
        try:
            run = _locked(path, locks)
        except (OSError, ValueError):
            os.rename(path, path + UNREADABLE)
            messages.say(f"the file about an earlier call cannot be read; it is kept as {path + UNREADABLE}")
        else:
            if run is not None:
                yield run


def _locked(path: str, locks: ExitStack) -> KilledRun | None:
    """Lock and read a file; return None if its call still runs. Raise ValueError if the content is invalid."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        locks.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return None
    about = os.fstat(descriptor)
    if not about.st_nlink:
        return None  # another process has just reported this call
    if not about.st_size:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # the call is about to lock it, or was killed before it read a line
        return None
    content = os.pread(descriptor, _HEADER_SIZE + LINES_MAX, 0)
    pid, began, _, last, size = map(int, content[:_HEADER_SIZE].split())
    return KilledRun(path, path.rpartition("/")[2], pid, began, last, content[_HEADER_SIZE:][:size])


def _report(client: ApiClient, run: KilledRun, messages: Messages) -> bool:
    """Report one call; return whether all of its jobs have ended."""
    jobs = list(_jobs(client, run.queue))[::-1]
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began))
    killed = f"the call of {began} (process {run.pid}) was killed"
    if jobs:
        counts = Counter("running" if _state(job) == "placed" else _state(job) for job in jobs)
        messages.say(f"{killed}; of its commands: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
        _list(jobs, run.queue, messages)
    is_over = all(job.get("state") in FINAL_STATES for job in jobs)
    if not is_over:
        messages.write(f"  unfinished commands go on; grass kill queue:{run.queue} ends them\n".encode())
    if run.lines and not any(job["id"] > run.last for job in jobs):
        messages.say(f"{killed}; these commands were read but not submitted:")
        messages.write(run.lines)
    return is_over


def _jobs(client: ApiClient, queue: str) -> Iterator[Job]:
    """Yield the jobs of a call, the last one first; no other call used its queue."""
    cursor = None
    for _ in range(PAGES_MAX):
        page = client.jobs(queue=queue, limit=PAGE_JOBS, cursor=cursor)
        yield from page["jobs"]
        cursor = page.get("next")
        if cursor is None:
            return


def _list(jobs: list[Job], queue: str, messages: Messages) -> None:
    ranked = sorted(jobs, key=lambda job: (ORDER.index(_state(job)), job["id"]))
    for job in ranked[:LISTED_MAX]:
        result = job_text.result(job)
        how = f" ({result})" if result not in ("", "ok", _state(job)) else ""
        text = render.clean(job_text.command(job))
        cut = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"
        messages.write(f"  job {job['id']} {job['state']}{how}: {cut}\n".encode("utf-8", "backslashreplace"))
    if len(ranked) > LISTED_MAX:
        messages.write(f"  and {len(ranked) - LISTED_MAX} more: grass show queue:{queue}\n".encode())


def _state(job: Job) -> str:
    state = str(job.get("state"))
    return state if state in ORDER else "waiting"
