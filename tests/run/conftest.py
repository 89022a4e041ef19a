"""The fixture of `run`: a crew of real processes in a directory of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.run.harness import Harness

from grassq.run import processes


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    found = Harness(tmp_path)
    yield found
    found.close()
    processes.signal_all(found.left(), signal.SIGKILL)
