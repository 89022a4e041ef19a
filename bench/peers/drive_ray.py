"""Ray's tasks: each starts a program and waits for it; told `functions`, they are functions and start none."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found]

from bench.peers import drive

SETTLE_S = 30.0
WORD = "functions"


def program(argv: list[str]) -> int:
    """Run a program; its status."""
    return os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)[1]


def function(argv: list[str]) -> int:
    """Stamp, as the program would: the time of the first instruction, into the file named last."""
    now = time.monotonic_ns()
    file = os.open(argv[-1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, b"%d\n" % now)
    os.close(file)
    return 0


class Ray:
    """A cluster of this machine, and its driver."""

    def __init__(self, job: Any) -> None:
        ray.init(
            address="local",
            num_cpus=drive.slots(),
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=f"{drive.folder()}/ray",
        )
        self._task = ray.remote(num_cpus=1)(job)
        self._alone = ray.remote(num_cpus=drive.slots())(job)
        self._last: Any = None

    def many(self, argv: list[str], count: int, limit_s: float) -> float:
        """So many calls, and their results."""
        began = time.perf_counter()
        _check(ray.get([self._task.remote(argv) for _ in range(count)], timeout=limit_s))
        return time.perf_counter() - began

    def one(self, argv: list[str]) -> None:
        """One call."""
        self._last = self._task.remote(argv)

    def settle(self) -> None:
        """Its result."""
        if self._last is not None:
            _check([ray.get(self._last, timeout=SETTLE_S)])

    def in_turn(self, argv: list[str], count: int, limit_s: float) -> None:
        """Each takes all slots, so that none runs beside it."""
        _check(ray.get([self._alone.remote(argv) for _ in range(count)], timeout=limit_s))

    def close(self) -> None:
        """Stop the cluster."""
        ray.shutdown()


def _check(statuses: list[int]) -> None:
    if bad := sum(status != 0 for status in statuses):
        raise SystemExit(f"{bad} of {len(statuses)} programs have failed")


if __name__ == "__main__":
    out = drive.answers()
    drive.serve(Ray(function if sys.argv[1:] == [WORD] else program), out)
