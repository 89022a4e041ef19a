"""The floor of a disk: how it is written, and when a disk is short of space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_worker

from grassq.core.model import DiskShortage
from grassq.core.planner.explain import explain
from grassq.core.planner.plan import plan
from grassq.core.resources.disk_floor import ROOM, DiskFloor, parse_floor, shortage
from grassq.errors import BadInput

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "total", "floor"),
    [
        ("auto", 1 << 40, GIB), ("auto", 16 << 20, (16 << 20) // 100), ("5G", 1 << 40, 5 * GIB),
        ("100", 1 << 40, 100 << 20),
        ("2%", 1000, 20), ("2.5 %", 1000, 25), ("none", 1 << 40, 0), ("0", 1 << 40, 0), ("", 1 << 40, 0),
    ],
)  # fmt: skip
def test_a_floor_is_a_size_a_part_or_the_smaller_of_both(text: str, total: int, floor: int) -> None:
    assert parse_floor(text).of(total) == floor


@pytest.mark.parametrize("text", ["-1G", "100%", "x%", "%", "much", "1e400G", "nan", "5Q", "٣%"])
def test_a_floor_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match="disk_floor needs") as refused:
        parse_floor(text)
    assert "\n" not in str(refused.value)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_disk_is_short_below_its_floor_and_until_there_is_more_room(free: int, floor: int, old: int) -> None:
    limits = DiskFloor(floor)
    first = shortage(limits, "/d", free, 1 << 42, None)
    assert (first is not None) == (free < floor)
    before = DiskShortage("/d", old, floor)
    later = shortage(limits, "/d", free, 1 << 42, before)
    assert (later is not None) == (free < floor * ROOM)
    if later is not None and later is not before:
        assert abs(later.free - before.free) >= 0.1 * floor


def test_a_worker_whose_disk_is_short_gets_no_job_and_says_why() -> None:
    job = a_job(1, cpu=1)
    short = replace(a_worker(cpu=4), disk_short=DiskShortage("/data", 500 << 20, GIB))
    board = a_board(short, jobs=[job])
    assert not plan(board, T0).placements
    [blocker] = explain(board, job, T0)
    assert blocker.why == (
        "worker w starts no job: the disk of /data has 500.0 MiB free, less than its floor of 1.0 GiB; "
        "`grass clean` removes ended jobs, or lower `disk_floor` in the settings"
    )
    assert short.lasting == a_worker(cpu=4), "it is not stored"
    board.set_worker(a_worker(cpu=4), online=True, now=T0)
    assert plan(board, T0).placements
