"""The progress bar: for people who look, and never in the way of what commands write."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat.schedulers import GATE, PROGRAM, Scheduler
from tests.e2e.world import DEADLINE_S, eventually

_SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")
DONE = re.compile(r"\d/\d")


class Terminal:
    """As much of a terminal as the bar needs: lines, a cursor, and going up and erasing."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = self._column = 0

    def show(self, text: str) -> None:
        """Draw what was written."""
        while text:
            sequence = _SEQUENCE.match(text)
            if sequence:
                self._control(sequence[1], sequence[2])
                text = text[sequence.end() :]
            else:
                self._character(text[0])
                text = text[1:]

    def _control(self, parameter: str, letter: str) -> None:
        if letter == "A":
            self._row -= int(parameter or 1)
        elif letter == "K":
            assert parameter == "2", parameter
            self.lines[self._row] = ""
        else:
            assert letter in "mhl", letter

    def _character(self, character: str) -> None:
        if character == "\n":
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append("")
        elif character == "\r":
            self._column = 0
        else:
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1


class Watched:
    """A call at a terminal."""

    def __init__(self, scheduler: Scheduler, lines: Path | None, *, with_stdout: bool, gpus: str = "0") -> None:
        self.terminal, theirs = pty.openpty()
        self.raw = ""
        self.out = scheduler.cwd / "out"
        with (lines or Path(os.devnull)).open("rb") as stdin, self.out.open("wb") as file:
            self.process = subprocess.Popen(
                [PROGRAM, "--gpus", gpus],
                cwd=scheduler.cwd,
                env={**scheduler.env, "TERM": "xterm", "COLUMNS": "100"},
                stdin=stdin if lines else subprocess.PIPE,
                stdout=theirs if with_stdout else file,
                stderr=theirs,
            )
        os.close(theirs)

    def until(self, is_seen: Callable[[str], object]) -> None:
        """Read the terminal until something is seen, or the call has ended."""
        while not is_seen(self.raw):
            assert select.select([self.terminal], [], [], DEADLINE_S)[0], self.raw
            try:
                self.raw += os.read(self.terminal, 4096).decode()
            except OSError:
                return

    def end(self) -> list[str]:
        """The lines on the terminal when the call has ended."""
        self.until(lambda raw: False)
        assert self.process.wait(DEADLINE_S) == 0
        os.close(self.terminal)
        terminal = Terminal()
        terminal.show(self.raw)
        return "\n".join(line.rstrip() for line in terminal.lines).rstrip("\n").split("\n")


def test_the_bar_is_drawn_for_a_file_and_gone_at_the_end(scheduler: Scheduler) -> None:
    file = scheduler.file("lines", "echo a", GATE.format("gate"))
    watched = Watched(scheduler, file, with_stdout=False)
    watched.until(lambda raw: "1/2" in raw and "1 running" in raw)
    scheduler.open_gate("gate")
    assert watched.end() == [""]
    assert watched.out.read_text().startswith("Processing command `echo a` on gpu 0\na\nProcessing ")


def test_it_never_garbles_what_commands_write_to_the_same_terminal(scheduler: Scheduler) -> None:
    counts = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.1; done; printf 'no end'"
    file = scheduler.file("lines", counts, "echo last; sleep 0.5")
    watched = Watched(scheduler, file, with_stdout=True)
    shown = watched.end()
    assert DONE.search(watched.raw)
    assert shown == [
        f"Processing command `{counts}` on gpu 0",
        *[f"line {i}" for i in range(1, 7)],
        "no end",
        "Processing command `echo last; sleep 0.5` on gpu 0",
        "last",
    ]


def test_it_is_not_drawn_behind_a_line_without_end(scheduler: Scheduler) -> None:
    file = scheduler.file("lines", "printf 'no end'", "sleep 1; echo last")
    shown = Watched(scheduler, file, with_stdout=True, gpus="0,1").end()
    assert shown[-2:] == ["no end", "last"]


def test_there_is_none_while_nobody_knows_how_many_will_come(scheduler: Scheduler) -> None:
    watched = Watched(scheduler, None, with_stdout=False)
    assert watched.process.stdin is not None
    watched.process.stdin.write(b"echo a\necho b\n")
    watched.process.stdin.flush()
    eventually(lambda: "\nb\n" in watched.out.read_text(), "both have run")
    assert not select.select([watched.terminal], [], [], 0)[0]
    watched.process.stdin.close()
    watched.end()


@pytest.mark.parametrize("with_stdout", [False, True])
def test_a_terminal_that_goes_away_changes_nothing_for_the_commands(scheduler: Scheduler, with_stdout: bool) -> None:
    file = scheduler.file("lines", "true", f"{GATE.format('gate')}; echo a; touch end")
    watched = Watched(scheduler, file, with_stdout=with_stdout)
    watched.until(lambda raw: "1/2" in raw and "1 running" in raw)
    os.close(watched.terminal)
    scheduler.open_gate("gate")
    assert watched.process.wait(DEADLINE_S) == 0
    assert scheduler.states() == ["succeeded"] * 2 and scheduler.log(2) == "a\n"
    assert not list((scheduler.home / "sgs").iterdir())


def test_nothing_heavy_is_loaded_before_somebody_looks() -> None:
    code = "import grassq.compat.simple_gpu_scheduler.scheduler, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert not {"rich", "asyncio", "aiohttp", "ssl", "json5", "cryptography"} & set(loaded)


def test_what_commands_write_does_not_control_the_terminal(scheduler: Scheduler) -> None:
    clears = r"printf '\033]0;owned\007\033[2J\033[31mred\302\233 \342\200\256desrever\033[8m'"
    file = scheduler.file("lines", clears, "echo '\x1b]0;owned\x07'")
    watched = Watched(scheduler, file, with_stdout=True)
    shown = watched.end()
    assert "\x1b]" not in watched.raw and "\x1b[2J" not in watched.raw and "\u202e" not in watched.raw
    assert "\x1b[31mred" in watched.raw and r"\u202edesrever" in watched.raw
    assert "\x1b[8m" not in watched.raw and watched.raw.rindex("\x1b[0m") > watched.raw.rindex("desrever")
    assert r"Processing command `echo '\x1b]0;owned\x07'` on gpu 0" in shown
