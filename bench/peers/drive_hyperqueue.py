"""HyperQueue's Python API: its wheel has server and worker in it, as threads of this process."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]
from hyperqueue.ffi.protocol import ResourceRequest  # type: ignore[import-not-found]

from bench.peers import drive

LOOK_S = 0.01
SETTLE_S = 30.0


class Looked(Exception):
    """Ends a wait after its first look."""


class HyperQueue:
    """A server, a worker and a client."""

    def __init__(self) -> None:
        self._cluster = LocalCluster(server_dir=f"{drive.folder()}/server")
        self._cluster.start_worker(WorkerConfig(cores=drive.slots()))
        self._client = self._cluster.client()
        self._last: int | None = None

    def many(self, argv: list[str], count: int, limit_s: float) -> float:
        """One job with so many tasks, described before the clock starts."""
        job = self._job(argv, count)
        began = time.perf_counter()
        self._await(self._client.submit(job).id, count, limit_s)
        return time.perf_counter() - began

    def one(self, argv: list[str]) -> None:
        """One job with one task."""
        self._last = self._client.submit(self._job(argv, 1)).id

    def settle(self) -> None:
        """Until it has ended."""
        if self._last is not None:
            self._await(self._last, 1, SETTLE_S)

    def in_turn(self, argv: list[str], count: int, limit_s: float) -> None:
        """Each takes all cores, so that none runs beside it."""
        job = self._job(argv, count, resources=ResourceRequest(cpus=drive.slots()))
        self._await(self._client.submit(job).id, count, limit_s)

    def close(self) -> None:
        """Stop server and worker."""
        self._cluster.stop()

    def _job(self, argv: list[str], count: int, **options: object) -> Any:
        # Its outputs go to files, as they do by default.
        job = Job(default_workdir=drive.folder())
        for _ in range(count):
            job.program(argv, **options)
        return job

    def _await(self, number: int, count: int, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not (state := self._look(number))["completed"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"{count} tasks have not ended after {limit_s:g} s")
            time.sleep(LOOK_S)
        if state["finished"] != count:
            raise SystemExit(f"only {state['finished']} of {count} tasks have finished")

    def _look(self, number: int) -> dict[str, Any]:
        # `wait_for_jobs` looks once in a second, which is too seldom here: it is left after its first look.
        seen: list[dict[str, Any]] = []

        def leave(jobs: dict[int, dict[str, Any]]) -> None:
            seen.append(jobs[number])
            raise Looked

        with suppress(Looked):
            self._client.connection.wait_for_jobs([number], leave)
        return seen[0]


if __name__ == "__main__":
    out = drive.answers()
    drive.serve(HyperQueue(), out)
