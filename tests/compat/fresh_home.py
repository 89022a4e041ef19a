"""A user's folder and a home of its own, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.e2e.world import Grass

AnyGrass = TypeVar("AnyGrass", bound=Grass)


@contextmanager
def fresh_home(tmp_path: Path, make: Callable[[Path, Path], AnyGrass]) -> Iterator[AnyGrass]:
    """What `make` makes of a home and a folder; no daemon runs yet, and none at the end."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = make(tmp_path / "home", cwd)
    yield world
    world.close()
