"""A hundred schedules of faults: nothing is lost, nothing runs twice, no code is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.machines.fault_run import LANES, run
from tests.machines.site import missing

#: `make ssh-faults` runs 3,000.
SEEDS = 100
#: So many tests share the schedules, each with a daemon and machines of its own, so that they can run side by side.
PARTS = 2
SECONDS = 600


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_jobs_end_as_they_did_over_any_bad_line(tmp_path: Path, part: int) -> None:
    if words := missing():
        pytest.skip(words)
    count = SEEDS // PARTS
    wrong = run(tmp_path, range(part * count, (part + 1) * count), LANES)
    assert not wrong, "\n".join(f"make ssh-faults SEED={seed}: {'; '.join(each)}" for seed, each in wrong.items())
