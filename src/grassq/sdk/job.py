"""A handle to one job, and the error it raises when the job failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grassq.core.outcome import in_words
from grassq.errors import GrassError
from grassq.net.client import FINAL_STATES

if TYPE_CHECKING:
    from grassq.sdk.client import Client


class JobFailed(GrassError):
    """A job failed or was cancelled; `job` has its log and its state."""

    exit_code = 1

    def __init__(self, job: Job) -> None:
        self.job = job
        self.code: int | None = job.info.get("exit_code")
        self.signal: int | None = job.info.get("signal")
        how = job.info.get("error") or in_words(job.info.get("outcome"), self.code, self.signal)
        super().__init__(f"job {job.id} {job.state}" + (f": {how}" if how else ""))


class Job:
    """One job: a handle shaped like a future. `info` is what was last heard of it."""

    def __init__(self, client: Client, info: dict[str, Any]) -> None:
        self._client = client
        #: The job as `grass show --json` prints it, as of the last refresh.
        self.info = info

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.info.get('state', 'submitted')}>"

    @property
    def id(self) -> int:
        """The number it is known by."""
        return int(self.info["id"])

    @property
    def state(self) -> str:
        """held, waiting, queued, placed, running, succeeded, failed or cancelled, as of now."""
        return str(self.refresh().info["state"])

    def refresh(self) -> Job:
        """Ask the daemon; returns itself. A final job is not asked about again."""
        if self.info.get("state") not in FINAL_STATES:
            self.info = self._client._show_one(self.id)
        return self

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in FINAL_STATES

    def wait(self, timeout: float | None = None) -> Job:
        """Until it has ended; TimeoutError after `timeout` seconds."""
        self._client.wait(self, timeout=timeout)
        return self

    def result(self, timeout: float | None = None) -> int:
        """Its exit code, 0, once it has succeeded; raises JobFailed if it does not."""
        self.wait(timeout)
        if self.info["state"] != "succeeded":
            raise JobFailed(self)
        return int(self.info.get("exit_code") or 0)

    def log(self) -> bytes:
        """What it has written so far."""
        return self._client.log(self)

    def kill(self, grace_s: float | None = None) -> Job:
        """Ask it to end; after the grace it is killed with all its children."""
        self._client.kill(self, grace_s=grace_s)
        return self
