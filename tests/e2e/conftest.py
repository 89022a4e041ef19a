"""A fresh home for every end-to-end test, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import Grass

import grassq


@pytest.fixture
def grass(tmp_path: Path) -> Iterator[Grass]:
    """Grass in a home of its own; no daemon runs yet."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Grass(tmp_path / "home", cwd)
    yield world
    world.close()


@pytest.fixture
def client(grass: Grass, monkeypatch: pytest.MonkeyPatch) -> grassq.Client:
    """A client of a fresh home, in the place where commands are typed."""
    for name in ("GRASS_HOME", "GRASS_CAPACITY", "PATH"):
        monkeypatch.setenv(name, grass.env[name])
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.chdir(grass.cwd)
    return grassq.Client()
