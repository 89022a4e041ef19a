"""Grass from Python: submit commands, wait for them, read what they wrote.

Enter at `client.py`, `Client`. A `Job` is a handle shaped like a future. Both are also `grassq.Client` and
`grassq.Job`.

May import `net` and `home`; light to import.

When the daemon is restarted while a program waits, `wait` asks again and goes on. When a submit is interrupted,
calling it again with the same `key` gives the same job.
"""

from grassq.sdk.client import Client
from grassq.sdk.job import Job, JobFailed

__all__ = ["Client", "Job", "JobFailed"]
