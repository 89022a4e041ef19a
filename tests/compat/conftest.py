"""A fresh home for every test with a real daemon, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.schedulers import Scheduler


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """simple_gpu_scheduler in a home of its own; no daemon runs yet."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Scheduler(tmp_path / "home", cwd)
    yield world
    world.close()
