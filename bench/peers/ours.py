"""Grass itself, as its users have it from Python."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack

from bench.homes import own_home
from bench.peers.base import NOTHING, SLOTS, Contestant, Latency, Trouble, gaps_between, limit_s, stamps
from grassq.net.encoding import FINAL_STATES
from grassq.sdk import Client, Job

QUEUE = "bench"
ONE = "one"
COMMAND_S = 60.0
#: They end about in their order, so the last few are waited for, whose answer is short; then the others are looked at.
LAST = 50


class Grass(Contestant):
    """A daemon in a home of its own, through the SDK."""

    name = "Grass"
    how = "`Client.submit` and, for many at once, `Client.submit_many`; a durable store, and a log of each job"

    def set_up(self) -> None:
        """Start a daemon and make its queues."""
        self._stack = ExitStack()
        try:
            home = self._stack.enter_context(own_home())
            for queue, slots in ((QUEUE, SLOTS), (ONE, 1)):
                words = ["create-queue", queue, f"--lane={slots}"]
                argv = [sys.executable, "-m", "grassq", *words]
                subprocess.run(argv, stdout=subprocess.DEVNULL, timeout=COMMAND_S, check=True)
            self._client = self._stack.enter_context(Client(home))
        except BaseException:
            self._stack.close()
            raise

    def stop(self) -> None:
        """Stop the daemon; its home goes with it."""
        self._stack.close()

    def throughput(self, count: int) -> float:
        """One submission; to the last end that the daemon has stored."""
        began = time.perf_counter()
        jobs = self._submit([NOTHING], count, QUEUE)
        self._client.wait(*jobs[-LAST:], timeout=limit_s(count))
        took = time.perf_counter() - began
        if late := [job for job in self._all(jobs) if job.info["state"] not in FINAL_STATES]:
            self._client.wait(*late, timeout=limit_s(count))
            took = time.perf_counter() - began
        self._check(jobs)
        return took

    def latency(self) -> Latency:
        """One `Client.submit` through an open connection."""
        file = self.new_file()
        command = self.stamp(file)
        began = time.monotonic_ns()
        job = self._client.submit(command, queue=QUEUE, request={"lane": 1})
        returned = time.monotonic_ns()
        [at] = stamps(file, 1)
        job.result(timeout=limit_s(1))
        return Latency((returned - began) / 1e6, (at - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """A queue with one slot."""
        file = self.new_file()
        jobs = self._submit(self.stamp(file), count, ONE)
        self._client.wait(jobs[-1], timeout=limit_s(count))
        self._check(jobs)
        return gaps_between(stamps(file, count))

    def _submit(self, command: list[str], count: int, queue: str) -> list[Job]:
        return self._client.submit_many([command] * count, queue=queue, request={"lane": 1})

    def _check(self, jobs: list[Job]) -> None:
        # Figures of jobs that did not run would mean nothing.
        good = sum(job.info["state"] == "succeeded" for job in self._all(jobs))
        if good != len(jobs):
            raise Trouble(f"only {good} of {len(jobs)} jobs have succeeded")

    def _all(self, jobs: list[Job]) -> list[Job]:
        return self._client.jobs(f"{jobs[0].id}-{jobs[-1].id}")
