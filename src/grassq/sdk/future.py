"""A real `concurrent.futures.Future` of a job, for code that takes nothing else."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from grassq.errors import GrassError
from grassq.sdk.job_errors import JobCancelled

if TYPE_CHECKING:
    from grassq.sdk.job import Job


class JobFuture(Future[Any]):
    """Has the result of a job when the job has ended. `cancel` asks the job to end."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    def cancel(self) -> bool:
        """Ask the job to end; return False if the job has ended already."""
        return not self.done() and self.job.cancel()

    def settle(self, job: Job) -> None:
        """Take over how the job ended."""
        try:
            error: GrassError | None = job.exception()
        except JobCancelled:
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        except GrassError as failure:
            error = failure
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(job.info["result"])
