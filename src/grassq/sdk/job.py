"""A handle to one job, and the error of a failed job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grassq.core.outcome import in_words
from grassq.errors import GrassError
from grassq.net.encoding import FINAL_STATES

if TYPE_CHECKING:
    from grassq.sdk.client import Client


class JobFailed(GrassError):
    """A job failed or was cancelled; `job` is its handle."""

    exit_code = 1

    def __init__(self, job: Job) -> None:
        self.job = job
        self.code: int | None = job.info.get("exit_code")
        self.signal: int | None = job.info.get("signal")
        how = job.info.get("error") or in_words(job.info.get("outcome"), self.code, self.signal)
        super().__init__(f"job {job.id} {job.state}" + (f": {how}" if how else ""))


class Job:
    """A handle to one job, like a future."""

    def __init__(self, client: Client, info: dict[str, Any]) -> None:
        self._client = client
        #: The job as `grass show --json` prints it, as of the last refresh.
        self.info = info

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.info.get('state', 'submitted')}>"

    @property
    def id(self) -> int:
        """The job id."""
        return int(self.info["id"])

    @property
    def state(self) -> str:
        """The current state: held, waiting, queued, placed, running, succeeded, failed or cancelled."""
        return str(self.refresh().info["state"])

    def refresh(self) -> Job:
        """Update `info` from the daemon, unless the job has ended; return this handle."""
        if self.info.get("state") not in FINAL_STATES:
            self.info = self._client._show_one(self.id)
        return self

    def done(self) -> bool:
        """Tell whether the job has ended: succeeded, failed or cancelled."""
        return self.state in FINAL_STATES

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has ended; raise TimeoutError after `timeout` seconds."""
        self._client.wait(self, timeout=timeout)
        return self

    def result(self, timeout: float | None = None) -> int:
        """Wait for the job and return its exit code, 0; raise JobFailed if the job failed or was cancelled."""
        self.wait(timeout)
        if self.info["state"] != "succeeded":
            raise JobFailed(self)
        return int(self.info.get("exit_code") or 0)

    def log(self) -> bytes:
        """Return the output so far."""
        return self._client.log(self)

    def kill(self, grace_s: float | None = None) -> Job:
        """Send SIGTERM to the job, and after `grace_s` seconds SIGKILL to the job and all its children."""
        self._client.kill(self, grace_s=grace_s)
        return self
