"""Grass from Python: submit commands, wait for them, read their output.

with grassq.Client() as grass:
    jobs = [grass.submit(["python", "train.py", "--lr", str(lr)], gpu=0.5) for lr in (0.1, 0.01)]
    for job in jobs:
        print(job.id, job.result())

Enter at `client.py`, `Client`. A `Job` is a handle like a future. Both are also `grassq.Client` and
`grassq.Job`.

May import `net` and `home`; light to import.

When the daemon is restarted while a program waits, `wait` asks again. When a submit is interrupted, a second call with
the same `key` returns the same job.
"""

from grassq.sdk.client import Client
from grassq.sdk.job import Job, JobFailed

__all__ = ["Client", "Job", "JobFailed"]
