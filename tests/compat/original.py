"""The simple-gpu-scheduler of the package index, to compare with; it is only run, as its own users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.e2e.world import Done

ROOT = Path(__file__).parents[2]
#: Where tests/needs.sh and bench/needs.sh put it.
PLACES = (Path(sys.prefix) / "original", *(ROOT / ".venv-peers" / "lib").glob("python3.*/site-packages"))

SCHEDULER = "from simple_gpu_scheduler.scheduler import main; main()"
SEARCH = "from simple_gpu_scheduler.hypersearch import generate_commands; generate_commands()"


def folder() -> Path:
    """Where it is; without it the test is skipped."""
    for place in PLACES:
        if (place / "simple_gpu_scheduler").is_dir():
            return place
    pytest.skip("the original is not installed: tests/needs.sh")


def run(program: str, words: Sequence[str], *, lines: bytes = b"", cwd: Path, env: Mapping[str, str]) -> Done:
    """Run one of its programs to its end."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", program, *words],
        input=lines,
        cwd=cwd,
        env={**env, "PYTHONPATH": os.fspath(folder())},
        capture_output=True,
        timeout=60.0,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
