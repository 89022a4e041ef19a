"""`grass top` in a real terminal: tmux at two sizes, a daemon that is killed under it, and the terminal afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.world import BIN, DEADLINE_S, Grass, end, eventually, processes_of

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

#: A program that runs `top` and breaks it at the key `x`.
BROKEN = """
import sys
from grassq.cli.main import main
from grassq.cli.top import app, keys
app.TopApp.do_redraw = lambda self: 1 / 0
sys.exit(main(["top"]))
"""


class Terminal:
    """A shell in a tmux of its own."""

    def __init__(self, grass: Grass, name: str) -> None:
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        env = {**grass.env, "TERM": "screen-256color", "LC_ALL": "C.UTF-8", "PS1": "shell$ "}
        shell = ["bash", "--norc", "--noprofile", "-i"]
        argv = [*self._tmux, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(grass.cwd), *shell]
        subprocess.run(argv, env=env, check=True, timeout=DEADLINE_S)
        self.sees("shell$")

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            [*self._tmux, *words], capture_output=True, text=True, check=True, timeout=DEADLINE_S
        ).stdout

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def lines(self) -> list[str]:
        """The terminal as the user sees it."""
        return self.tmux("capture-pane", "-p").split("\n")

    def sees(self, *texts: str) -> list[str]:
        """Wait until the terminal shows some texts; its lines then."""
        return self.until(lambda lines: all(text in "\n".join(lines) for text in texts), f"{texts}")

    def until(self, condition: Callable[[list[str]], bool], what: str) -> list[str]:
        try:
            return eventually(lambda: found if condition(found := self.lines()) else None, what) or []
        except AssertionError:
            raise AssertionError(f"{what}: never; the terminal shows\n" + "\n".join(self.lines())) from None

    def is_sane(self) -> None:
        """The shell is back on the ordinary screen with its cursor, and the terminal has the settings of before."""
        eventually(lambda: self.tmux("display", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n", "a sane screen")
        eventually(lambda: self.settings() == self.before, "the settings of before")

    def settings(self) -> str:
        tty = self.tmux("display", "-p", "#{pane_tty}").strip()
        return subprocess.run(["stty", "-a", "-F", tty], capture_output=True, text=True, check=True).stdout

    def remember(self) -> None:
        self.before = self.settings()

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=DEADLINE_S)


@pytest.fixture
def terminal(grass: Grass) -> Iterator[Terminal]:
    """A shell of 80 times 24 in the home of the test, with a daemon, two devices and a running job."""
    grass.ok("create-queue", "g", "--gpu=2")
    made = Terminal(grass, f"grass-test-{os.getpid()}")
    yield made
    made.close()


def top_pid(grass: Grass) -> int:
    found = [pid for pid, words in processes_of(grass.home).items() if words.rstrip().endswith(("top", "broken.py"))]
    return eventually(lambda: found[0], "top runs")


def test_a_screen_that_is_resized_asks_before_a_kill_and_survives_the_death_of_the_daemon(
    grass: Grass, terminal: Terminal
) -> None:
    job = grass.enqueue("g", "--gpu=1", "--", "sh", "-c", "echo hello from the job; sleep 1000")
    terminal.remember()
    terminal.type("grass top")
    lines = terminal.sees("live", "gpu0", "hello from the job", "running", "help")
    assert len(lines) == 25 and "quit" in lines[23]
    terminal.tmux("resize-window", "-x", "200", "-y", "60")
    terminal.until(lambda lines: len(lines) == 61 and "quit" in lines[59] and _is_wide(lines), "a frame of 60 lines")
    terminal.tmux("resize-window", "-x", "80", "-y", "24")
    terminal.until(lambda lines: "quit" in lines[23] and all(len(line) <= 80 for line in lines), "a frame of 24 lines")
    terminal.press("K")
    terminal.sees(f"kill job {job} (sh -c")
    terminal.press("n")
    terminal.sees("nothing was done")
    assert grass.job(job)["state"] == "running"
    grass.crash()
    terminal.sees("not live since", "hello from the job", "S starts it")
    terminal.press("S")
    terminal.sees("● live")
    grass.enqueue("g", "--gpu=1", "--name", "later", "--", "sleep", "1000")
    terminal.sees("later", "hello from the job")
    terminal.press(":")
    terminal.type(f"kill {job}")
    terminal.sees(f"run `grass kill {job}`?")
    terminal.press("y")
    grass.until(job, "cancelled")
    terminal.press("Q")
    terminal.sees("shell$")
    terminal.is_sane()


def _is_wide(lines: list[str]) -> bool:
    return any(line.startswith("─") and line.endswith("─") and len(line) == 200 for line in lines)


def test_the_terminal_is_sane_after_ctrl_z_a_signal_and_a_crash(grass: Grass, terminal: Terminal) -> None:
    terminal.remember()
    terminal.type("grass top")
    terminal.sees("live", "no jobs yet")
    terminal.press("C-z")
    terminal.sees("Stopped")
    terminal.is_sane()
    terminal.type("fg")
    terminal.sees("live", "no jobs yet")
    end(top_pid(grass), signal.SIGTERM)
    terminal.is_sane()
    terminal.type("echo code $?")
    terminal.sees("code 143")
    program = grass.write("broken.py", BROKEN)
    terminal.type(f"clear; {shlex.quote(sys.executable)} {program}")
    terminal.sees("live", "no jobs yet")
    terminal.press("r")
    terminal.sees("top failed (ZeroDivisionError: division by zero)", "shell$")
    terminal.is_sane()
    assert "Traceback" not in "\n".join(terminal.lines())
    assert "ZeroDivisionError" in (grass.home / "top-crash.log").read_text()


def test_without_a_terminal_one_frame_is_printed_and_without_a_daemon_that_is_said(grass: Grass) -> None:
    assert "no daemon runs" in grass.refuses(4, "top")
    grass.ok("create-queue", "g", "--gpu=2")
    job = grass.gated("gate", "g", "--gpu=1")
    grass.until(job, "running")
    done = grass.program("sh", "-c", "grass top | cat; grass top --once --ascii failed")
    assert done.code == 0 and "\x1b" not in done.out and not done.err
    assert done.out.count("live") == 2 and done.out.count("running") == 1 and "gpu0" in done.out
    assert done.out.partition("no jobs")[0] != done.out
    assert (BIN / "grass").exists() and Path(grass.home).exists()
    grass.open_gate("gate")
