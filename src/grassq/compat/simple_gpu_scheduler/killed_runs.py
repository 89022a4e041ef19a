"""A file about each call of simple_gpu_scheduler, and the report about calls that were killed.

The file names the process, its first and last job, and the lines in flight: lines that were read from stdin and that
the daemon has not confirmed as stored. The file is locked while the call lives and removed at a clean end, so an
unlocked file belongs to a killed call. The daemon knows what became of every stored line.
"""

# The paths are made of text, and pathlib costs more than all of this.
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
from grassq.compat.simple_gpu_scheduler.messages import Messages
from grassq.errors import GrassError, NotFound
from grassq.net.client import FINAL_STATES, ApiClient

FOLDER = "sgs"
#: Suffix of a file whose header cannot be read.
UNREADABLE = ".unreadable"
#: Files read by one call, and bytes of lines in flight read from one file; one read from stdin brings fewer.
FILES_MAX = 100
LINES_MAX = 8 << 20
#: Process, start in seconds since 1970, first job, last job, bytes of lines in flight: always of the same length.
_HEADER = b"%10d %12d %18d %18d %8d\n"
_HEADER_SIZE = len(_HEADER % (0, 0, 0, 0, 0))

#: Commands listed one by one; `grass show` lists the others.
LISTED_MAX = 20
#: Jobs per request, and in all. Of a call with more jobs, the report is about the last ones.
ASKED_AT_ONCE = 10_000
ASKED_MAX = 100_000
#: Characters of a command that are shown.
SHOWN_MAX = 200
#: States by interest; every other state is a way of waiting.
ORDER = ("failed", "cancelled", "running", "placed", "waiting", "succeeded")

Job = dict[str, Any]


class RunFile:
    """The file about this call. Where the file cannot be written, `say` tells so once and the call goes on."""

    def __init__(self, home: str, queue: str, say: Callable[[str], None]) -> None:
        self._path = f"{home}/{FOLDER}/{queue}"
        self._say = say
        self._has_failed = False
        self._began = int(time.time())
        #: The ids of the first and last stored job; 0 before there is one.
        self._first = self._last = 0
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

    def confirm(self, first: int = 0, last: int = 0) -> None:
        """No line is in flight any more: the lines are these jobs, or are known not to be stored."""
        if first:
            self._first, self._last = self._first or first, last
        self.put_in_flight(b"")

    def close(self) -> None:
        """Remove the file, unless lines are in flight: then the next call reports them."""
        if self._descriptor < 0 or self._lines:
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            os.close(self._descriptor)
        except OSError as error:
            self._tell(error)

    def _write(self, lines: bytes) -> None:
        content = _HEADER % (os.getpid(), self._began, self._first, self._last, len(lines)) + lines
        written = 0
        while written < len(content):
            # A full disk takes a part at first; the write of the next part fails and says why.
            written += os.pwrite(self._descriptor, content[written:], written)

    def _tell(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            then = "if it is killed, the next one may not tell what became of its commands"
            self._say(f"the note about this call cannot be kept ({error.strerror}); {then}")


class KilledRun(NamedTuple):
    """A call that was killed, as its file tells."""

    path: str
    pid: int
    began: int
    first: int
    last: int
    lines: bytes

    @property
    def queue(self) -> str:
        """The name of the queue that the call made."""
        return os.path.basename(self.path)  # noqa: PTH119


def report_killed_runs(client: ApiClient, messages: Messages) -> None:
    """Report every killed call, the oldest first, and remove its file once all of its jobs have ended."""
    try:
        with ExitStack() as locks:
            for run in sorted(_killed_runs(client.home, messages, locks), key=lambda run: run.began):
                if _report(client, run, messages):
                    os.unlink(run.path)
    except (GrassError, OSError) as error:
        messages.say(f"what became of an earlier call cannot be told now: {error}")


def _killed_runs(home: str, messages: Messages, locks: ExitStack) -> Iterator[KilledRun]:
    """Yield the killed calls; `locks` keeps every other call from reporting them too."""
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
            messages.say(f"the note about an earlier call cannot be read; it is kept as {path + UNREADABLE}")
        else:
            if run is not None:
                yield run


def _locked(path: str, locks: ExitStack) -> KilledRun | None:
    """Lock and read a file; return None if its call lives. Raise if it is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        locks.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return None
    about = os.fstat(descriptor)
    if not about.st_nlink:
        return None  # another call has reported it meanwhile
    if not about.st_size:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # its call is about to lock it, or was killed before it read a line
        return None
    content = os.pread(descriptor, _HEADER_SIZE + LINES_MAX, 0)
    pid, began, first, last, size = map(int, content[:_HEADER_SIZE].split())
    return KilledRun(path, pid, began, first, last, content[_HEADER_SIZE:][:size])


def _report(client: ApiClient, run: KilledRun, messages: Messages) -> bool:
    """Report one call; return whether all of its jobs have ended."""
    jobs = list(_jobs(client, run))
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began))
    killed = f"the call of {began} (process {run.pid}) was killed"
    if jobs:
        counts = Counter("running" if _state(job) == "placed" else _state(job) for job in jobs)
        messages.say(f"{killed}; of its commands: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
        _list(jobs, run.queue, messages)
    is_over = all(job.get("state") in FINAL_STATES for job in jobs)
    if not is_over:
        messages.write(f"  they go on; grass kill queue:{run.queue} ends those that have not ended\n".encode())
    if run.lines and not any(job["id"] > run.last for job in jobs):
        messages.say(f"{killed}; these it had read, and not handed over:")
        messages.write(run.lines)
    return is_over


def _jobs(client: ApiClient, run: KilledRun) -> Iterator[Job]:
    selectors = []
    if run.last:
        first = max(run.first, run.last - ASKED_MAX + 1)
        # The lines in flight may be stored: then their jobs come after the last known one.
        last = run.last + (ASKED_MAX if run.lines else 0)
        selectors = [f"{low}-{min(low + ASKED_AT_ONCE - 1, last)}" for low in range(first, last + 1, ASKED_AT_ONCE)]
    elif run.lines:
        selectors = [f"queue:{run.queue}"]
    for selector in selectors:
        with suppress(NotFound):  # somebody has cleaned them away
            yield from (job for job in client.show([selector])["jobs"] if job.get("queue") == run.queue)


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
