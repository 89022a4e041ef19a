"""A fresh home for every test with a real daemon, and the certainty that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.batches import Desk, card, gpu_machine
from tests.compat.fresh_home import fresh_home
from tests.compat.peasy import Peasy
from tests.compat.schedulers import Scheduler
from tests.machines.conftest import shared_site
from tests.machines.site import MachineSite, SshMachine

__all__ = ["shared_site"]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """simple_gpu_scheduler in a home of its own; no daemon runs yet."""
    with fresh_home(tmp_path, Scheduler) as world:
        yield world


@pytest.fixture(scope="module")
def two(shared_site: MachineSite) -> SshMachine:
    """A machine with two idle GPUs."""
    return gpu_machine(shared_site, "two", card(0), card(1))


@pytest.fixture(scope="module")
def one(shared_site: MachineSite) -> SshMachine:
    """A machine with one idle GPU, and without Python."""
    return gpu_machine(shared_site, "one", card(0), python=False)


@pytest.fixture
def desk(tmp_path: Path, shared_site: MachineSite) -> Iterator[Desk]:
    """A user's directory in a home of its own; no daemon runs yet."""
    with fresh_home(tmp_path, lambda home, cwd: Desk(home, cwd, shared_site)) as world:
        yield world


@pytest.fixture
def peasy(tmp_path: Path) -> Iterator[Peasy]:
    """GPUPeasy in a home of its own; nothing runs yet."""
    with fresh_home(tmp_path, Peasy) as world:
        yield world
