"""Grass from Python: submit commands, wait for them, read their output and results.

with grassq.Client() as grass:
    jobs = [grass.submit(["python", "train.py", "--lr", lr], gpu=0.5) for lr in (0.1, 0.01)]
    for job in grassq.as_completed(jobs):
        print(job.id, job.result())

Enter at `client.py`, `Client`; `fleet.py` has its queues and devices, `many.py` what submits many jobs. `job.py` has
the handle of a job, in the shape of a future. `waiting.py` waits for several jobs, with one thread per client, which
hears of ends (`watcher.py`). Everything public is also in `grassq`. `job_list.py` is a list of such handles,
`display.py` shows jobs, `job_errors.py` has the errors of failed jobs, `notices.py` warnings. `submission.py` is what
is sent, `script.py` what a script adds to it, `sweep.py` has the commands of a sweep, `sweep_file.py` applies one in a
file.

May import `net`, `home`, `inputs` and of `core` what people type and how attempts end; light to import.

When the daemon is restarted while a program waits, the client opens another stream and looks again. When a submit is
interrupted, a second call with the same `key` returns the same job.
"""

from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION

from grassq.sdk.client import Client
from grassq.sdk.future import JobFuture
from grassq.sdk.job import Job
from grassq.sdk.job_errors import JobCancelled, JobFailed
from grassq.sdk.job_list import JobList
from grassq.sdk.notices import CannotStartWarning
from grassq.sdk.sweep_file import SweepFileResult
from grassq.sdk.waiting import as_completed, wait

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "CannotStartWarning",
    "Client",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFuture",
    "JobList",
    "SweepFileResult",
    "as_completed",
    "wait",
]


def __dir__() -> list[str]:
    return list(__all__)
