"""A far side on this computer: a home, a shell of one kind, and the moves that tests make with them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.run.harness import a_spec, eventually

from grassq.machines.far_end import FarEnd
from grassq.machines.transport import LocalTransport
from grassq.run import processes, rundir
from grassq.run.rundir import Lease
from grassq.worker.run_spec import Launch

SHELLS = ("dash", "bash", "busybox")
STORE = "5eed"


def _python_3_8() -> str:
    installed = shutil.which("python3.8")
    # The stand-in of pyenv starts another version, unless it is told.
    roots = [Path.home() / ".pyenv", *([Path(installed).parents[1]] if installed else [])]
    found = [path for root in roots for path in root.glob("versions/3.8.*/bin/python")]
    if not found and (installed is None or "shims" in installed):
        pytest.skip("there is no Python 3.8 here")
    return str(found[0] if found else installed)


#: The Pythons of far sides that have one: ours, and the oldest that a shim runs with.
PYTHONS = {"python": lambda: sys.executable, "python3.8": _python_3_8}
#: A job of a far side is a dozen processes, and each look at it some more.
SOON_S = 60.0


class FarSite:
    """A home with a `sh` of one kind on its PATH; for busybox there is no other program at all."""

    def __init__(self, folder: Path, shell: str, *, python: str | None = None) -> None:
        self.shell = shell
        self.home = folder / "home"
        self.home.mkdir()
        bins = folder / "bin"
        bins.mkdir()
        if shell == "busybox":
            subprocess.run(["busybox", "--install", "-s", str(bins)], check=True)
            path = str(bins)
        else:
            (bins / "sh").symlink_to(f"/bin/{shell}")
            path = f"{bins}:{os.defpath}"
        if python is not None:
            (bins / "python3").symlink_to(python)
        self.with_python = python is not None
        self.transport = LocalTransport(str(self.home), shell=(str(bins / "sh"),), env={"PATH": path})
        self.far_home = self.home / ".grass-ssh" / STORE
        self.ends: list[FarEnd] = []
        self.jobs: set[int] = set()
        self.far = self.connect()

    def connect(self) -> FarEnd:
        """Open one more connection."""
        far = FarEnd(self.transport, STORE, python=self.with_python)
        far.open()
        self.ends.append(far)
        return far

    def launch(self, job: int, *argv: str | bytes, **changes: Any) -> Launch:
        greeting = self.far.greeting
        path = rundir.attempt_dir(greeting.home, job, 1)
        self.jobs.add(job)
        result = {"GRASS_RESULT_FILE": rundir.result_file(path)}
        given = {
            name: rundir.encode_word(value) if isinstance(value, bytes) else value for name, value in changes.items()
        }
        given |= {"env": result | changes.get("env", {})}
        written = {"cwd": str(self.home), "boot": greeting.boot} | given
        content = json.dumps(a_spec(job, list(argv), path, **written)).encode()
        # The shim's own reader gives a value to each field that is not written.
        spec = rundir.RunSpec(json.loads(content))
        return Launch(tuple(getattr(spec, name) for name in rundir.RunSpec.FIELDS), content, spec.cwd)

    def start(self, job: int, *argv: str | bytes, lease: Lease | None = None, **changes: Any) -> bool:
        """Order a command."""
        return self.far.start((job, 1), self.launch(job, *argv, lease=lease is not None, **changes), lease)

    def begin(self, job: int, *argv: str | bytes, **changes: Any) -> rundir.RunDirState:
        """Order a command and wait until it runs."""
        assert self.start(job, *argv, **changes)
        return self.look_until(job, lambda found: found.command_alive)

    def run(self, job: int, *argv: str | bytes, **changes: Any) -> dict[str, Any]:
        """Order a command and return its exit record."""
        assert self.start(job, *argv, **changes)
        return self.ended(job)

    def script(self, job: int, text: str, **changes: Any) -> dict[str, Any]:
        return self.run(job, "/bin/sh", "-c", text, **changes)

    def ended(self, job: int) -> dict[str, Any]:
        found = self.look_until(job, lambda found: found.exit is not None).exit
        assert found is not None
        return found

    def look_until(self, job: int, condition: Any) -> rundir.RunDirState:
        def look() -> rundir.RunDirState | None:
            found = self.far.look((job, 1))
            return found if condition(found) else None

        found: rundir.RunDirState = eventually(look, f"job {job}", SOON_S)
        return found

    def log(self, job: int, stream: str = "log") -> bytes:
        return self.far.read(job, 1, stream, 0, 1 << 20)[0]

    def folder(self, job: int) -> Path:
        return self.far_home / "jobs" / str(job) / "1"

    def left(self) -> list[tuple[int, int]]:
        """Every living process that has the marks of one of the jobs."""
        folders = {job: rundir.attempt_dir(os.fsencode(self.far_home), job, 1) for job in self.jobs}
        return [each for job, path in folders.items() for each in processes.members(None, rundir.marks(path, job, 1))]

    def close(self) -> None:
        for far in self.ends:
            far.close()
        processes.signal_all(self.left(), signal.SIGKILL)
