"""A Grass with Slurm's names, and where it can be installed a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.fresh_home import fresh_home
from tests.compat.slurm.real_slurm import RealSlurm, why_not
from tests.compat.slurm.slurm_desk import SlurmDesk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[SlurmDesk]:
    """Slurm's names in a home of its own; no daemon runs yet."""
    with fresh_home(tmp_path, SlurmDesk) as world:
        yield world


@pytest.fixture(scope="session")
def real_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A real Slurm of one node."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    slurm = RealSlurm(tmp_path_factory.mktemp("slurm"))
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
