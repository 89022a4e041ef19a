"""Far sides with each shell, and machines with a real sshd, which need root and what tests/needs.sh installs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import Grass
from tests.machines.far_site import PYTHONS, SHELLS, FarSite
from tests.machines.site import MachineSite, missing


def _site(folder: Path) -> Iterator[MachineSite]:
    if words := missing():
        pytest.skip(words)
    site = MachineSite(folder)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[MachineSite]:
    """A network of its own for one test, and the certainty that nothing of it is left."""
    yield from _site(tmp_path)


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineSite]:
    """A network for all tests of a file; each makes machines with names of its own, or only reads."""
    yield from _site(tmp_path_factory.mktemp("site"))


@pytest.fixture(params=[*SHELLS, *PYTHONS])
def far_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FarSite]:
    """A far side with each shell and without Python, and one with each Python."""
    if request.param in PYTHONS:
        found = FarSite(tmp_path, "dash", python=PYTHONS[request.param]())
        assert found.far.greeting.python is not None
    else:
        found = FarSite(tmp_path, request.param)
        assert found.far.greeting.python is None
    yield found
    found.close()


@pytest.fixture
def grass(tmp_path: Path, site: MachineSite) -> Iterator[Grass]:
    """Grass in a home of its own, whose ssh reads the site's configuration; no daemon runs yet."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Grass(tmp_path / "home", cwd)
    world.env["GRASS_SSH"] = str(site.ssh)
    yield world
    world.close()
