"""The jobs that are measured, and the certainty that they ran."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from grassq.net.client import ApiClient

STREAM_JOBS = 1000
STREAM_TIMEOUT_S = 60.0
SLOTS = 2
#: Discarded at the start: the first call starts the daemon, the next ones warm caches.
WARM_UP = 3
#: The job of the latency measurement: its first instruction writes the time. -I -S: as little start as Python has.
STAMP = (sys.executable, "-I", "-S", "-c", "import time; print(time.monotonic_ns())")


def await_all(requests: ApiClient) -> None:
    """Until every job of the queue has ended."""
    deadline = time.monotonic() + STREAM_TIMEOUT_S
    while not requests.wait(["queue:bench"], timeout_s=30)["done"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"the jobs have not ended after {STREAM_TIMEOUT_S:g} s")


def check_succeeded(requests: ApiClient, ids: list[int]) -> None:
    """Figures of jobs that did not run would mean nothing."""
    jobs = requests.show([f"{ids[0]}-{ids[-1]}"])["jobs"]
    good = sum(job["state"] == "succeeded" and job["exit_code"] == 0 for job in jobs)
    if good != len(ids):
        raise SystemExit(f"only {good} of {len(ids)} jobs succeeded: the figures mean nothing")


def program(name: str) -> str:
    """A program of ours, as it was installed."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise SystemExit(f"there is no {path}; install Grass into this environment: pip install .")
    return str(path)
