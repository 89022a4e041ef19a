"""A small disk that a test can fill, and free again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def mounted(point: Path, *options: str, kind: str = "tmpfs") -> Iterator[Path]:
    """Mount a file system on a new directory; the test is skipped where that is not allowed."""
    point.mkdir()
    argv = ["mount", "-t", kind, "-o", ",".join(options), "none", str(point)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount is not allowed here: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


def fill(disk: Path) -> None:
    """Use up every byte of a disk."""
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    ballast.write(b"x" * size)
            except OSError:
                continue


def free(disk: Path) -> None:
    """Give back what `fill` has used up."""
    (disk / "ballast").unlink(missing_ok=True)
