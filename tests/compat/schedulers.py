"""Calls of simple_gpu_scheduler, typed into a shell or held by both ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.world import BIN, DEADLINE_S, Done, Grass, eventually

PROGRAM = BIN / "simple_gpu_scheduler"
_SAID = re.compile(rb"Processing command `(.*)` on gpu (.*)")

#: A shell's way to wait for a file.
GATE = "until [ -e {} ]; do sleep 0.02; done"


class Call:
    """A call that goes on: its input is written here, what it wrote is read here."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    @property
    def pid(self) -> int:
        """The process."""
        return self.process.pid

    def write(self, *lines: str | bytes) -> None:
        """Give it lines."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """End its input and wait until it has ended; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None  # what is left of it is waited for at the end of the test
        return self.process.wait(DEADLINE_S)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._out.read_text(errors="surrogateescape")

    def err(self) -> str:
        """What it has said so far."""
        return self._err.read_text(errors="surrogateescape")

    def until_out(self, text: str) -> str:
        """Wait until it has written that."""
        eventually(lambda: text in self.out(), f"{text!r} on stdout; stderr: {self.err()}")
        return self.out()

    def until_err(self, text: str) -> str:
        """Wait until it has said that."""
        eventually(lambda: text in self.err(), f"{text!r} on stderr, which is {self.err()!r}")
        return self.err()


class Scheduler(Grass):
    """One user's simple_gpu_scheduler, and the Grass under it."""

    def typed(self, line: str, *, env: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> Done:
        """Type a line into bash; how its last command ended."""
        return self.program("bash", "-c", line, env=env, timeout_s=timeout_s)

    def piped(self, lines: str | bytes, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Pipe lines into a call with these words and wait for its end."""
        done = subprocess.run(
            [PROGRAM, *words],
            input=lines if isinstance(lines, bytes) else lines.encode(),
            cwd=self.cwd,
            env={**self.env, **(env or {})},
            capture_output=True,
            timeout=60.0,
            check=False,
        )
        out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        assert "Traceback" not in err, err
        return Done(done.returncode, out, err)

    def call(self, *words: str, **options: Any) -> Call:
        """Start a call whose input is written by the test."""
        number = len(self.foreground)
        out, err = self.cwd / f"out.{number}", self.cwd / f"err.{number}"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            settings = {"stdin": subprocess.PIPE, "stdout": stdout, "stderr": stderr, **options}
            process = subprocess.Popen(
                [os.fsencode(PROGRAM), *map(os.fsencode, words)], cwd=self.cwd, env=self.env, **settings
            )
        self.foreground.append(process)
        return Call(process, out, err)

    def file(self, name: str, *lines: str) -> Path:
        """A file of lines where the commands run."""
        path = self.cwd / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def made(self, name: str) -> None:
        """Wait until a command has made a file."""
        eventually((self.cwd / name).exists, f"{name} is made")


def processing(out: str) -> list[tuple[str, str]]:
    """The commands that were announced, each with its gpu, in that order."""
    return [(match[1].decode(), match[2].decode()) for match in _SAID.finditer(os.fsencode(out))]


def others(out: str) -> list[str]:
    """The lines that commands wrote themselves."""
    return [line for line in out.splitlines() if not _SAID.fullmatch(os.fsencode(line))]


def run_file(pid: int, began: int, first: int, last: int, lines: bytes) -> bytes:
    """The content of the file about a call: its jobs, and its lines in flight."""
    return b"%10d %12d %18d %18d %8d\n" % (pid, began, first, last, len(lines)) + lines
