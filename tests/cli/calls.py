"""Calling `grass` as a person would: a process of its own."""

from __future__ import annotations

import os
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
