"""Calling `grass` as a person would: a process of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

Done = subprocess.CompletedProcess[str]


def environment(home: Path) -> dict[str, str]:
    """The environment of a call that finds this source tree and uses `home`."""
    return {**os.environ, "GRASS_HOME": str(home), "PYTHONPATH": str(ROOT / "src")}


def grass(home: Path, *words: str | bytes) -> Done:
    """Run `grass WORDS` to its end."""
    return python(home, ROOT / "bin" / "grass", *words)


def python(home: Path, *words: str | bytes | Path) -> Done:
    """Run an interpreter with `words` to its end."""
    argv = [os.fsencode(word) for word in (sys.executable, *words)]
    return subprocess.run(argv, env=environment(home), capture_output=True, text=True, timeout=60, check=False)


def on_terminal(home: Path, *words: str | bytes | Path, **environ: str) -> bytes:
    """Run an interpreter with `words` to its end at a terminal of its own; return what the terminal was sent."""
    ours, theirs = pty.openpty()
    argv = [os.fsencode(word) for word in (sys.executable, *words)]
    env = {**environment(home), "COLUMNS": "60", "TERM": "xterm", "NO_COLOR": "", **environ}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        drawn = b""
        try:
            while select.select([ours], [], [], 60)[0] and (part := os.read(ours, 1 << 16)):
                drawn += part
        except OSError:
            pass  # the error of Linux when no process has the other end
        finally:
            os.close(ours)
            process.kill()
    return drawn
