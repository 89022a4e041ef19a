"""A home of its own for every test of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import calls


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home that this process and the commands it calls use."""
    directory = tmp_path / "home"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("GRASS_HOME", str(directory))
    monkeypatch.delenv("GRASS_BROKER", raising=False)
    return directory


@pytest.fixture
def grass(home: Path) -> Callable[..., calls.Done]:
    """Calls `grass` in a process of its own."""
    return lambda *words: calls.grass(home, *words)
