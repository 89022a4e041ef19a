"""A fresh home for every end-to-end test, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import Grass


@pytest.fixture
def grass(tmp_path: Path) -> Iterator[Grass]:
    """Grass in a home of its own; no daemon runs yet."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Grass(tmp_path / "home", cwd)
    yield world
    world.close()
