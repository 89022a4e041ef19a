"""A handle to one job, in the shape of a future."""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from grassq.errors import BadInput, GrassError
from grassq.net.cannot_start import CannotStart, watched
from grassq.net.encoding import FINAL_STATES
from grassq.sdk import display
from grassq.sdk.job_errors import TAIL_LINES, JobCancelled, JobFailed
from grassq.sdk.notices import warn_cannot_start
from grassq.sdk.waiting import as_completed

if TYPE_CHECKING:
    from grassq.sdk.client import Client
    from grassq.sdk.future import JobFuture

#: `follow` yields a longer line in parts of this many characters.
LINE_CHARS_MAX = 1 << 20
#: The most bytes of a log's last lines that an error keeps.
TAIL_BYTES_MAX = 64 << 10
#: Stands for the state of a job that `clean` removed.
REMOVED = "removed"

_logger = logging.getLogger("grassq")


class Job:
    """A handle to one job, in the shape of a `concurrent.futures.Future`.

    Two handles are equal if they stand for the same job. A pickled handle holds the id of the job and the place of its
    queue, so another process on this machine can read it.
    """

    __slots__ = ("_client", "_info", "_is_existing", "_is_whole")

    def __init__(self, client: Client, info: dict[str, Any], *, existing: bool = False) -> None:
        self._client = client
        self._is_existing = existing
        self._info = info
        #: Whether `_info` is the job's whole document; after a submission only its id is known.
        self._is_whole = "state" in info

    def __repr__(self) -> str:
        display.glance([self])
        return display.line(self)

    def _repr_html_(self) -> str:
        display.glance([self])
        return display.table([self])

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        display.glance([self])
        yield "id", self.id
        for name in ("state", "name", "queue", "exit_code"):
            if self._info.get(name) is not None:
                yield name, self._info[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job):
            return NotImplemented
        return self.id == other.id and self._client._place == other._client._place

    def __hash__(self) -> int:
        return hash((self._client._place, self.id))

    def __reduce__(self) -> tuple[Any, ...]:
        return Job, (self._client, {"id": self.id})

    @property
    def id(self) -> int:
        """The job id."""
        return int(self._info["id"])

    @property
    def existing(self) -> bool:
        """Whether `submit` stored nothing and returned this job: it has the same `unique` key and has not ended."""
        return self._is_existing

    @property
    def info(self) -> dict[str, Any]:
        """The job as `grass show --json` prints it, as of the last look; `refresh` looks again."""
        if not self._is_whole:
            self._load()
        return self._info

    @property
    def name(self) -> str | None:
        """The name of the job, if it has one."""
        name: str | None = self.info["name"]
        return name

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return str(self.info["queue"])

    @property
    def state(self) -> str:
        """The current state: held, waiting, queued, placed, running, succeeded, failed or cancelled."""
        if self._known_state not in FINAL_STATES:
            self._load()
        return str(self._info["state"])

    @property
    def exit_code(self) -> int | None:
        """The exit code; None if the job has not ended, was ended by a signal, or never ran."""
        code: int | None = self.refresh().info["exit_code"]
        return code

    @property
    def outcome(self) -> str | None:
        """How the last attempt ended: exited, signalled, spawn_failed, lost, unknown, cancelled or timed_out."""
        outcome: str | None = self.refresh().info["outcome"]
        return outcome

    def refresh(self) -> Job:
        """Ask the daemon for the current `info`, unless the job has ended; return this handle."""
        if not self._is_whole or self._known_state not in FINAL_STATES:
            self._load()
        return self

    def done(self) -> bool:
        """Tell whether the job has ended: succeeded, failed or cancelled."""
        return self.state in FINAL_STATES

    def running(self) -> bool:
        """Tell whether the command runs now; it is also true of a suspended job, which `suspended` tells."""
        return self.state == "running"

    @property
    def suspended(self) -> str | None:
        """What becomes of the devices of a suspended job: "kept" or "freed", or "resuming"; None of any other job."""
        word: str | None = self.refresh().info.get("suspended")
        return word

    def cancelled(self) -> bool:
        """Tell whether the job was cancelled and has ended."""
        return self.state == "cancelled"

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has ended and return this handle; raise TimeoutError after `timeout` seconds."""
        for _ in as_completed([self], timeout):
            pass
        return self

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the job and return what it wrote to $GRASS_RESULT_FILE, read as JSON; None if it wrote nothing.

        Raise JobFailed if the job failed, JobCancelled if it was cancelled, TimeoutError after `timeout` seconds.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.info.get("result")

    def exception(self, timeout: float | None = None) -> JobFailed | None:
        """Wait for the job and return the error that `result` would raise; None if the job succeeded.

        Raise JobCancelled if the job was cancelled, TimeoutError after `timeout` seconds.
        """
        state = self.wait(timeout).refresh().info["state"]
        if state == "cancelled":
            raise JobCancelled(self)
        return JobFailed(self, self._log_tail()) if state == "failed" else None

    def add_done_callback(self, fn: Callable[[Job], object]) -> None:
        """Call `fn` with this handle when the job has ended: at once if it has, else later on another thread.

        What `fn` raises is logged. `fn` must not wait for other jobs, and it is not called after the client is closed.
        """
        self._on_end(fn)

    def future(self) -> JobFuture:
        """Return a real `concurrent.futures.Future` with the result of the job; also for `asyncio.wrap_future`."""
        from grassq.sdk.future import JobFuture

        future = JobFuture(self)
        self._on_end(future.settle, future.set_exception)
        return future

    def cancel(self, grace_s: float | None = None) -> bool:
        """Cancel the job, also while it runs; return False if it has ended already.

        A running job gets SIGTERM, and after `grace_s` seconds SIGKILL.
        """
        return bool(self._client._change("kill", [self], quiet=True, grace_s=grace_s))

    def kill(self, grace_s: float | None = None) -> Job:
        """Cancel the job as `cancel` does, and return this handle."""
        self._client.kill(self, grace_s=grace_s)
        return self

    def hold(self) -> Job:
        """Keep the job from starting until `release`; return this handle."""
        self._client.hold(self)
        return self

    def release(self) -> Job:
        """Let a held job start; return this handle."""
        self._client.release(self)
        return self

    def suspend(self, *, free: bool = False) -> Job:
        """Stop the processes of the job until `resume`, as `Client.suspend` does; return this handle."""
        self._client.suspend(self, free=free)
        return self

    def resume(self) -> Job:
        """Let the suspended job go on, as `Client.resume` does; return this handle."""
        self._client.resume(self)
        return self

    def set_priority(self, priority: int) -> Job:
        """Set the priority, where larger is sooner and 30 is neutral; return this handle."""
        self._client.priority(self, priority)
        return self

    def edit(self, **changes: Any) -> Job:
        """Change what the job asks for, as `Client.edit` does, if it has not started; return this handle."""
        for changed in self._client.edit(self, **changes):
            self._learn(changed._info)
        return self

    def move(
        self,
        *,
        first: bool = False,
        last: bool = False,
        before: Job | int | None = None,
        after: Job | int | None = None,
    ) -> Job:
        """Move the job among jobs of equal priority, as `Client.move` does; return this handle."""
        self._client.move(self, first=first, last=last, before=before, after=after)
        return self

    def rerun(self) -> Job:
        """Submit the job again, now that it has ended; return the handle of the new job."""
        return self._client.rerun(self)[0]

    def why(self) -> str:
        """Return why the job is in its state, as `grass why` prints it."""
        return self._client.why(self)

    def log(self, tail: int | None = None, *, stream: str | None = None, attempt: int | None = None) -> str:
        """Return the output so far as text, or its last `tail` lines; `log_bytes` returns it unchanged."""
        return self.log_bytes(tail, stream=stream, attempt=attempt).decode("utf-8", "replace")

    def log_bytes(self, tail: int | None = None, *, stream: str | None = None, attempt: int | None = None) -> bytes:
        """Return the output so far, or its last `tail` lines, as bytes.

        `stream` is "out" or "err" for a job with split=True (default: both); `attempt` is a number (default: the last).
        """
        streams = [stream] if stream else ["out", "err"] if self._is_split else ["log"]
        api = self._client._requests
        return b"".join(part for each in streams for part in api.log(self.id, stream=each, attempt=attempt, tail=tail))

    def follow(self, *, stream: str | None = None, tail: int | None = None) -> Iterator[str]:
        """Yield the lines of the output as they are written, without their line ends, until the job has ended.

        With `tail`, only the last lines of what is there already. With split=True, `stream` is "out" or "err".
        """
        if stream is None and self._is_split:
            raise BadInput(f"job {self.id} keeps its outputs apart: follow(stream='out') or follow(stream='err')")
        api = self._client._requests
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        with watched(lambda: self.refresh().info, self.refresh().info, CannotStart(warn_cannot_start)):
            for part in api.follow(self.id, stream=stream or "log", tail=tail):
                *lines, rest = (rest + decoder.decode(part)).split("\n")
                yield from lines
                if len(rest) > LINE_CHARS_MAX:
                    yield rest
                    rest = ""
        if rest := rest + decoder.decode(b"", final=True):
            yield rest

    @property
    def _known_state(self) -> str | None:
        """The state as of the last look."""
        return self._info.get("state")

    @property
    def _is_over(self) -> bool:
        """Whether the job is known to have ended, or to be removed."""
        return self._known_state in FINAL_STATES or self._known_state == REMOVED

    @property
    def _is_split(self) -> bool:
        return bool(self.info.get("split"))

    def _load(self) -> None:
        self._learn(self._client._requests.one_job(str(self.id)))

    def _learn(self, info: dict[str, Any] | None) -> None:
        """Take over what is known of the job now: its document, only its last state, or None for a removed job."""
        if info is not None and self._known_state in FINAL_STATES and info.get("state") not in FINAL_STATES:
            return  # an answer that was sent before the end was heard
        if info is not None and "id" in info:
            self._info, self._is_whole = info, True
        else:
            self._info, self._is_whole = {**self._info, "state": REMOVED, **(info or {})}, False

    def _log_tail(self) -> str:
        data = b""
        with suppress(GrassError):
            for part in self._client._requests.log(self.id, stream="err" if self._is_split else "log", tail=TAIL_LINES):
                data = (data + part)[-TAIL_BYTES_MAX:]
        return data.decode("utf-8", "replace")

    def _on_end(
        self, fn: Callable[[Job], object], given_up: Callable[[GrassError], object] = lambda error: None
    ) -> None:
        callback = _Callback(self, fn, given_up)
        if self.done():
            callback.call()
        else:
            self._client._ends.watch([self.id], callback)


class _Callback:
    """Calls a function when a job has ended."""

    def __init__(self, job: Job, fn: Callable[[Job], object], given_up: Callable[[GrassError], object]) -> None:
        self._job = job
        self._fn = fn
        self._given_up = given_up

    def ended(self, job: int, info: dict[str, Any] | None) -> None:
        """Call the function: the job has ended."""
        self._job._learn(info)
        self.call()

    def failed(self, error: GrassError, *, for_good: bool) -> None:
        """Go on waiting while the daemon is away; give up when the client is closed."""
        if for_good:
            self._given_up(error)

    def call(self) -> None:
        """Call the function, and log what it raises: others wait for the same thread."""
        try:
            self._fn(self._job)
        except Exception:
            _logger.exception("a callback of job %d failed", self._job.id)
