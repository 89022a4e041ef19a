"""Progress bars of real libraries, run as processes, against the reference emulator."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

import pytest
from tests.core.term.pyte_screen import our_lines, pyte_lines

from grassq.core.term.screen import fold

TQDM = """
import sys
from tqdm import tqdm
print("begin", flush=True)
for epoch in tqdm(range(3), desc="epochs", position=0, mininterval=0):
    for step in tqdm(range(20), desc=f"epoch {epoch}", position=1, leave=False, mininterval=0):
        if step == 10:
            tqdm.write(f"half of {epoch}", file=sys.stderr)
print("end", flush=True)
"""
TQDM_THREE = """
from tqdm import tqdm
bars = [tqdm(total=9, desc=f"bar {at}", position=at, mininterval=0, colour="green") for at in range(3)]
for _ in range(9):
    for bar in reversed(bars):
        bar.update()
for bar in bars:
    bar.close()
"""
RICH = """
from rich.console import Console
from rich.progress import Progress
with Progress(console=Console(force_terminal=True, width=100), auto_refresh=False) as progress:
    tasks = [progress.add_task(f"[red]task {at}", total=10) for at in range(3)]
    for step in range(10):
        for task in tasks:
            progress.advance(task)
        if step == 5:
            progress.console.print("[bold]half[/bold]")
        progress.refresh()
"""
PROGRESSBAR2 = """
import progressbar
for _ in progressbar.progressbar(range(30), redirect_stdout=True, poll_interval=0, min_poll_interval=0, term_width=90):
    if _ == 15:
        print("half")
"""
#: What keras writes: backspaces and a carriage return before every step, and colours.
KERAS = """
import sys
width = 0
for epoch in range(2):
    print(f"Epoch {epoch + 1}/2")
    for step in range(1, 11):
        sys.stdout.write("\\b" * width + "\\r")
        bar = f"\\x1b[1m{step:>2}/10\\x1b[0m \\x1b[32m{'━' * (2 * step)}\\x1b[0m"
        bar += f"\\x1b[37m{'━' * (20 - 2 * step)}\\x1b[0m"
        text = f" \\x1b[1m{10 - step}s\\x1b[0m 12ms/step - accuracy: {step / 10:.4f}"
        sys.stdout.write(bar + text)
        width = len(bar + text)
    sys.stdout.write("\\n")
"""


def written(program: str, *, on_terminal: bool) -> bytes:
    """What a program writes, to a file or to a terminal."""
    environ = {"PATH": os.environ["PATH"], "COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    command = [sys.executable, "-c", program]
    if not on_terminal:
        done = subprocess.run(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=True
        )
        return done.stdout
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    process = subprocess.Popen(command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:
        pass  # Linux says EIO when the other side has closed its end
    os.close(ours)
    assert process.wait(60) == 0
    return b"".join(parts)


@pytest.mark.parametrize(
    ("program", "on_terminal", "shown"),
    [
        (TQDM, False, ["begin", "half of 0", "half of 1", "half of 2", "epochs: 100%", "end"]),
        (TQDM_THREE, False, ["bar 0: 100%", "bar 1: 100%", "bar 2: 100%"]),
        (TQDM_THREE, True, ["bar 0: 100%", "bar 1: 100%", "bar 2: 100%"]),
        (RICH, True, ["half", "task 0 ━━━", "task 1 ━━━", "task 2 ━━━"]),
        (PROGRESSBAR2, True, ["half", "100% (30 of 30)"]),
        (KERAS, False, ["Epoch 1/2", "10/10 ━━━", "Epoch 2/2", "10/10 ━━━"]),
    ],
    ids=["tqdm", "three-tqdm", "three-tqdm-on-a-terminal", "rich", "progressbar2", "keras"],
)
def test_bars_become_the_lines_that_a_terminal_shows(program: str, on_terminal: bool, shown: list[str]) -> None:
    data = written(program, on_terminal=on_terminal)
    lines = fold(data)
    assert our_lines(lines) == pyte_lines(data)
    texts = [line.text for line in lines if line.text.strip()]
    assert len(texts) == len(shown), texts
    for text, begin in zip(texts, shown, strict=True):
        assert text.startswith(begin)
    assert any(line.updates for line in lines)
