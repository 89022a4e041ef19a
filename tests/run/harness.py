"""A home, a crew and the few moves every test of `run` makes with them."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grassq.run import processes, rundir
from grassq.run.shim_pool import ShimPool

DEADLINE_S = 10.0


def prepare(path: str, spec: dict[str, Any]) -> None:
    rundir.prepare(path, json.dumps(spec).encode())


def _word(word: str | bytes) -> object:
    return rundir.encode_word(os.fsencode(word))


def a_spec(job: int, argv: list[str | bytes], path: str, **changes: Any) -> dict[str, Any]:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"} | {
        os.fsdecode(name): value for name, value in changes.pop("env", {}).items()
    }
    env |= {"GRASS_JOB_ID": str(job), "GRASS_ATTEMPT": "1", "GRASS_RUN_DIR": rundir.files_dir(path)}
    spec = {
        "v": 1,
        "store": "5eed",
        "job": job,
        "attempt": 1,
        "boot": processes.boot_id(),
        "argv": [_word(word) for word in argv],
        "env": [[_word(name), _word(value)] for name, value in env.items()],
        "cwd": "/",
        "umask": 0o22,
        "split": False,
        "grace_s": 10.0,
        "leave_grace_s": 2.0,
        "keep_children": False,
        "with_daemon": False,
        **changes,
    }
    missing = set(rundir.RunSpec.FIELDS) - set(rundir.LATER) - set(spec)
    assert not missing, f"give {missing} a default in rundir.LATER: no spec.json of an earlier release has them"
    return spec


def eventually(condition: Callable[[], Any], what: str, within_s: float = DEADLINE_S) -> Any:
    """Wait for a condition, never for a time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(0.002)
    return found


def names_in(path: str) -> list[str]:
    return sorted(entry.name for entry in Path(path).iterdir())


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


class Harness:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.boot = processes.boot_id()
        self.shim_pool = ShimPool(sys.executable, str(home))
        self.shim_pool.start()
        self.jobs: dict[int, str] = {}
        self.reports: list[dict[str, Any]] = []
        self.closed = False

    def prepare(self, *argv: str | bytes, **changes: Any) -> str:
        job = len(self.jobs) + 1
        path = rundir.attempt_dir(str(self.home), job, 1)
        self.jobs[job] = path
        prepare(path, a_spec(job, list(argv), path, **changes))
        return path

    def start(self, *argv: str | bytes, **changes: Any) -> tuple[str, dict[str, Any]]:
        """Order a command and wait until it has started."""
        path = self.prepare(*argv, **changes)
        self.shim_pool.order(path)
        return path, self.until("started", path)

    def run(self, *argv: str | bytes, **changes: Any) -> tuple[str, dict[str, Any]]:
        """Order a command and wait until it has ended."""
        path = self.prepare(*argv, **changes)
        self.shim_pool.order(path)
        return path, self.ended(path)

    def script(self, text: str, **changes: Any) -> tuple[str, dict[str, Any]]:
        return self.run("/bin/sh", "-c", text, **changes)

    def ended(self, path: str) -> dict[str, Any]:
        record: dict[str, Any] = self.until("exited", path)["record"]
        return record

    def until(self, event: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = eventually(lambda: self.heard(event, path), f"{event} of {path}")[0]
        return found

    def heard(self, event: str, path: str) -> list[dict[str, Any]]:
        """What was said of an attempt; of a command that was over at once its end says that it had started as well."""
        if not self.closed and select.select([self.shim_pool], [], [], 0.0)[0]:
            self.reports += self.shim_pool.read()
        job = next(job for job, known in self.jobs.items() if known == path)
        about = [report for report in self.reports if report.get("job") == job]
        return [report for report in about if report["event"] == event or (event == "started" and "pid" in report)]

    def stop(self, path: str, grace_s: float | None) -> bool:
        rundir.request_stop(path, grace_s, "test")
        shim = rundir.look(path, self.boot).shim
        return shim is not None and processes.signal_verified(*shim, signal.SIGTERM)

    def log(self, path: str, stream: str = "log") -> bytes:
        return Path(rundir.log_path(path, stream)).read_bytes()

    def left(self) -> list[tuple[int, int]]:
        """Every living process that carries the marks of one of our jobs."""
        return [
            found for job, path in self.jobs.items() for found in processes.members(None, rundir.marks(path, job, 1))
        ]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.shim_pool.close()
