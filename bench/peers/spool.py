"""Queues that are used by commands: task-spooler and Slurm."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from contextlib import suppress

import psutil

from bench.homes import LOOK_S
from bench.peers.base import NOTHING, SLOTS, Contestant, Latency, Trouble, gaps_between, limit_s, stamps
from bench.peers.places import own_env

COMMAND_S = 30.0
END_S = 1.0


class TaskSpooler(Contestant):
    """task-spooler: its clients are its jobs, so many processes as jobs wait."""

    name = "task-spooler"
    how = "`tsp /bin/true` in a loop of sh, with its file for the output; a submission is a process"

    def available(self) -> str | None:
        """Why not."""
        return None if shutil.which("tsp") else "not installed"

    def set_up(self) -> None:
        """Start its server."""
        self._env = own_env(self.folder) | {"TS_SOCKET": str(self.folder / "tsp")}
        self._call("tsp", "-S", str(SLOTS))

    def stop(self) -> None:
        """End its server, and the clients that would start another."""
        subprocess.run(["tsp", "-K"], env=self._env, timeout=COMMAND_S, check=False)
        for each in psutil.wait_procs(self._mine(), timeout=END_S)[1]:
            each.kill()

    def throughput(self, count: int) -> float:
        """It has no way to take many at once: a loop."""
        before = self._logs()
        began = time.perf_counter()
        self._loop(count, [NOTHING])
        self._wait()
        took = time.perf_counter() - began
        if (logs := self._logs() - before) != count:
            raise Trouble(f"{logs} of {count} jobs have left a log")
        return took

    def latency(self) -> Latency:
        """One `tsp`."""
        file = self.new_file()
        argv = ["tsp", *self.stamp(file)]
        began = time.monotonic_ns()
        self._call(*argv)
        returned = time.monotonic_ns()
        [at] = stamps(file, 1)
        return Latency((returned - began) / 1e6, (at - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """One slot for a while."""
        file = self.new_file()
        self._call("tsp", "-S", "1")
        self._loop(count, self.stamp(file))
        times = stamps(file, count)
        self._wait()
        self._call("tsp", "-S", str(SLOTS))
        return gaps_between(times)

    def _loop(self, count: int, command: list[str]) -> None:
        script = f"n={count}; while [ $n -gt 0 ]; do tsp {shlex.join(command)}; n=$((n - 1)); done"
        self._call("/bin/sh", "-c", script, timeout_s=limit_s(count))

    def _wait(self) -> None:
        # The last one first; whatever still runs besides it is seen in the list.
        self._call("tsp", "-w", timeout_s=limit_s(0))
        deadline = time.monotonic() + COMMAND_S
        while any(word in self._call("tsp", "-l") for word in (" running ", " queued ")):
            if time.monotonic() > deadline:
                raise Trouble(f"jobs still run {COMMAND_S:g} s after the last one ended")
            time.sleep(LOOK_S)

    def _mine(self) -> list[psutil.Process]:
        found = []
        for each in psutil.process_iter():
            # Others come and go, and may not be looked into.
            with suppress(psutil.Error):
                if each.name() == "tsp" and each.environ().get("TS_SOCKET") == self._env["TS_SOCKET"]:
                    found.append(each)
        return found

    def _logs(self) -> int:
        return sum(1 for _ in self.folder.glob("ts-out.*"))

    def _call(self, *argv: str, timeout_s: float = COMMAND_S) -> str:
        # To a file, not a pipe: the process that stays behind for the job would keep a pipe open.
        said = self.folder / "said"
        with said.open("wb") as file:
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, env=self._env, timeout=timeout_s, check=True)
        return said.read_text()


class Slurm(Contestant):
    """Slurm, where somebody runs it: nothing is started, the jobs go to its default partition."""

    name = "Slurm"
    how = "`sbatch --array=1-N%2`; a submission is a process"
    #: Slurm's own limit of an array, unless somebody raised it.
    most = 1000

    def available(self) -> str | None:
        """Why not."""
        if not shutil.which("sbatch"):
            return "not installed"
        answer = subprocess.run(["sinfo", "-h"], capture_output=True, timeout=COMMAND_S, check=False)
        return None if answer.returncode == 0 and answer.stdout.strip() else "installed, but no partition answers"

    def stop(self) -> None:
        """Take back what is left."""
        subprocess.run(["scancel", "--name", self._name()], timeout=COMMAND_S, check=False)

    def throughput(self, count: int) -> float:
        """One array."""
        began = time.perf_counter()
        self._submit([NOTHING], f"--array=1-{count}%{SLOTS}")
        self._wait(count)
        return time.perf_counter() - began

    def latency(self) -> Latency:
        """One `sbatch`."""
        file = self.new_file()
        began = time.monotonic_ns()
        self._submit(self.stamp(file))
        returned = time.monotonic_ns()
        [at] = stamps(file, 1)
        self._wait(1)
        return Latency((returned - began) / 1e6, (at - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """An array of which one runs at a time."""
        file = self.new_file()
        self._submit(self.stamp(file), f"--array=1-{count}%1")
        return gaps_between(stamps(file, count))

    def _submit(self, command: list[str], *words: str) -> None:
        # Their own folder: the log of a job goes where it was submitted.
        argv = ["sbatch", "--parsable", "-J", self._name(), "-n1", *words, f"--wrap=exec {shlex.join(command)}"]
        subprocess.run(argv, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=COMMAND_S, check=True)

    def _wait(self, count: int) -> None:
        deadline = time.monotonic() + limit_s(count)
        argv = ["squeue", "-h", "-n", self._name()]
        while subprocess.run(argv, stdout=subprocess.PIPE, timeout=COMMAND_S, check=True).stdout.strip():
            if time.monotonic() > deadline:
                raise Trouble(f"{count} jobs have not ended after {limit_s(count):g} s")
            time.sleep(LOOK_S * 10)

    def _name(self) -> str:
        return self.folder.name
