"""Programs that run commands and remember nothing: C, xargs, GNU parallel, simple-gpu-scheduler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from bench.peers.base import NOTHING, SLOTS, Contestant, Latency, Trouble, gaps_between, limit_s, stamps
from bench.peers.places import own_env, peers_bin


class Limit(Contestant):
    """The physical limit: vfork and exec from C."""

    name = "C vfork"
    how = "a C program that does vfork, exec and wait; one program alone is started by posix_spawn"

    def set_up(self) -> None:
        """Nothing to start."""
        if self.programs.limit is None:
            raise Trouble(self.programs.why_not)

    def throughput(self, count: int) -> float:
        """All of them by one process."""
        began = time.perf_counter()
        self._run(count, SLOTS, [NOTHING])
        return time.perf_counter() - began

    def latency(self) -> Latency:
        """Nobody between the caller and the program."""
        file = self.new_file()
        argv = self.stamp(file)
        began = time.monotonic_ns()
        child = os.posix_spawn(argv[0], argv, dict(os.environ))
        [at] = stamps(file, 1)
        os.waitpid(child, 0)
        return Latency(None, (at - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """One at a time."""
        file = self.new_file()
        self._run(count, 1, self.stamp(file))
        return gaps_between(stamps(file, count))

    def _run(self, count: int, slots: int, argv: list[str]) -> None:
        words = [str(self.programs.limit), str(count), str(slots), *argv]
        subprocess.run(words, stdin=subprocess.DEVNULL, timeout=limit_s(count), check=True)


class Piped(Contestant):
    """A program that takes jobs line by line on its standard input; nobody answers that a line has come."""

    _open: subprocess.Popen[bytes] | None = None

    def argv(self, slots: int, command: list[str]) -> list[str]:
        """The program, so many at a time; `command` is what a line is added to, where it cannot be all of it."""
        raise NotImplementedError

    def line(self, command: list[str]) -> bytes:
        """One job: all of its words, unless the program knows them from its start."""
        return os.fsencode(shlex.join(command)) + b"\n"

    def set_up(self) -> None:
        """Start one that waits for lines."""
        file = self.new_file()
        self._open = self._started(SLOTS, list(self.programs.stamp))
        self._write(self._open, self.line(self.stamp(file)))
        stamps(file, 1)

    def stop(self) -> None:
        """End of input, and a while to end."""
        if self._open is not None:
            _end(self._open)
            self._open = None

    def throughput(self, count: int) -> float:
        """All lines at once into one that is ready; to the end of the program."""
        process = self._started(SLOTS, [NOTHING])
        try:
            self._write(process, self.line([NOTHING, "0"]))
            time.sleep(self.ready_s)
            began = time.perf_counter()
            self._write(process, b"".join(self.line([NOTHING, str(number)]) for number in range(count)))
            self._finish(process, count)
            return time.perf_counter() - began
        finally:
            _end(process)

    #: How long it takes to start: long before, it waits for lines.
    ready_s = 1.0

    def latency(self) -> Latency:
        """One line into one that waits."""
        assert self._open is not None
        file = self.new_file()
        line = self.line(self.stamp(file))
        began = time.monotonic_ns()
        self._write(self._open, line)
        return Latency(None, (stamps(file, 1)[0] - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """Many lines, one slot."""
        file = self.new_file()
        process = self._started(1, list(self.programs.stamp))
        try:
            self._write(process, self.line(self.stamp(file)) * count)
            self._finish(process, count)
        finally:
            _end(process)
        return gaps_between(stamps(file, count))

    def _started(self, slots: int, command: list[str]) -> subprocess.Popen[bytes]:
        argv = self.argv(slots, command)
        out = subprocess.DEVNULL
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out, env=own_env(self.folder))

    def _write(self, process: subprocess.Popen[bytes], lines: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(lines)
            process.stdin.flush()
        except BrokenPipeError as error:
            raise Trouble(f"{self.name} has ended with status {process.wait()}") from error

    def _finish(self, process: subprocess.Popen[bytes], count: int) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            status = process.wait(limit_s(count))
        except subprocess.TimeoutExpired as error:
            raise Trouble(f"{count} jobs have not ended after {limit_s(count):g} s") from error
        if status != 0:
            raise Trouble(f"{self.name} ended with status {status}")


class Xargs(Piped):
    """What everybody has."""

    name = "xargs"
    how = "`xargs -P2 -n1 /bin/true`, a line per job on its standard input"
    ready_s = 0.2

    def available(self) -> str | None:
        """Why not."""
        return None if shutil.which("xargs") else "not installed"

    def argv(self, slots: int, command: list[str]) -> list[str]:
        """The command is known from the start; a line is its last word."""
        return ["xargs", f"-P{slots}", "-n1", *command]

    def line(self, command: list[str]) -> bytes:
        """Only the last word."""
        return os.fsencode(command[-1]) + b"\n"


class Parallel(Piped):
    """GNU parallel."""

    name = "GNU parallel"
    how = "`parallel -j2`, a command per line on its standard input"

    def available(self) -> str | None:
        """Why not."""
        return None if shutil.which("parallel") else "not installed"

    def argv(self, slots: int, command: list[str]) -> list[str]:
        """Without the request to be cited, which is for people."""
        return ["parallel", "--will-cite", f"-j{slots}"]


class SimpleGpuScheduler(Piped):
    """The scheduler that Grass's users know from PyPI."""

    name = "simple-gpu-scheduler"
    how = "`simple_gpu_scheduler --gpus 0 1`, a command per line on its standard input"

    def available(self) -> str | None:
        """Why not."""
        return None if self._program().exists() else "not installed"

    def argv(self, slots: int, command: list[str]) -> list[str]:
        """A slot is a GPU, which need not exist."""
        return [str(self._program()), "--gpus", *map(str, range(slots))]

    def _program(self) -> Path:
        return peers_bin() / "simple_gpu_scheduler"


#: How long a program may go on when its input has ended.
END_S = 10.0


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
