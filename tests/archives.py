"""Homes of an earlier release, kept as archives."""

from __future__ import annotations

import tarfile
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"


def unpack(name: str, target: Path) -> None:
    """Unpack an archive of tests/fixtures into a directory."""
    with tarfile.open(FIXTURES / name) as tar:
        # Python 3.11.2, which Debian 12 has, knows no filters; from Python 3.12 on, a call without one warns.
        if hasattr(tarfile, "data_filter"):
            tar.extractall(target, filter="data")
        else:
            tar.extractall(target)
