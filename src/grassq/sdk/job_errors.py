"""The errors of jobs that did not succeed."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from grassq.core.outcome import in_words
from grassq.core.printable import printable
from grassq.errors import GrassError

if TYPE_CHECKING:
    from grassq.sdk.job import Job

#: The last lines of a log in the message of an error, and the characters of one line.
TAIL_LINES = 8
TAIL_LINE_CHARS = 200


class JobFailed(GrassError):
    """A job failed: `job` is its handle, `reason` says how it ended, `log_tail` has the last lines of its log."""

    exit_code = 1

    def __init__(self, job: Job, log_tail: str = "") -> None:
        info = job.info
        self.job = job
        self.code: int | None = info.get("exit_code")
        self.signal: int | None = info.get("signal")
        self.reason = str(info.get("error") or in_words(info.get("outcome"), self.code, self.signal))
        self.log_tail = log_tail
        because = f": {printable(self.reason)}" if self.reason not in ("", info["state"]) else ""
        super().__init__(f"job {job.id} {info['state']}{because}{_indented(log_tail)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job, self.log_tail)


class JobCancelled(JobFailed, CancelledError):
    """A job was cancelled; also a `concurrent.futures.CancelledError`."""


def _indented(log_tail: str) -> str:
    """Return the last lines of a log for a message: each below the other, without control characters."""
    # A progress bar writes many states into one line; the last one is what a terminal would show.
    lines = [line.rstrip().rpartition("\r")[2] for line in log_tail.split("\n") if line.strip()]
    return "".join(f"\n  | {printable(line, TAIL_LINE_CHARS)}" for line in lines[-TAIL_LINES:])
