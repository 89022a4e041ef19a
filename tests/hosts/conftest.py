"""Hosts as network namespaces: these tests need root, iproute2 and nftables, which `make test` installs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A network of its own for one test, and the certainty that nothing of it is left."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
        pytest.skip("network namespaces need root, iproute2 and nftables")
    site = Site(tmp_path)
    yield site
    site.close()
