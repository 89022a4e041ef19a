"""A fresh home for every end-to-end test, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.small_disk import free, mounted
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
def disk(grass: Grass, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A small disk that holds the home: of 16 MB, or as a parameter says."""
    size = getattr(request, "param", "16m")
    with mounted(tmp_path / "disk", f"size={size}", "mode=755") as point:
        grass.home = point / "home"
        grass.env["GRASS_HOME"] = str(grass.home)
        try:
            yield point
        finally:
            free(point)
            grass.close()


@pytest.fixture
def client(grass: Grass, monkeypatch: pytest.MonkeyPatch) -> grassq.Client:
    """A client of a fresh home, in the place where commands are typed."""
    for name in ("GRASS_HOME", "GRASS_CAPACITY", "PATH"):
        monkeypatch.setenv(name, grass.env[name])
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.chdir(grass.cwd)
    return grassq.Client()
