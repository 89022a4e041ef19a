"""Blocks of a timeline: each is drawn or counted, and none that is drawn is too narrow to see beside another."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.resources.amounts import ONE
from grassq.core.timeline.blocks import BlockKind, LaneBlock, LaneKey, MergedBlock, parts_of
from grassq.core.timeline.merge import merge, merge_lanes

times = st.floats(0, 1000, allow_nan=False).map(lambda at: round(at, 3))


@st.composite
def blocks(draw: st.DrawFn) -> list[LaneBlock]:
    found = []
    for job in range(draw(st.integers(0, 40))):
        begin, lasts = draw(times), draw(st.one_of(st.floats(0, 2), st.floats(0, 200)))
        kinds: list[BlockKind] = ["past", "past", "past", "running", "planned"]
        kind = draw(st.sampled_from(kinds))
        end = None if kind == "running" else begin + lasts
        state = draw(st.sampled_from(["succeeded", "failed"]))
        found.append(LaneBlock(job, 1, kind, state, begin, end, draw(st.sampled_from([0.1, 0.5, 1.0]))))
    return found


@given(blocks(), st.floats(0.01, 50))
def test_merging_loses_no_block_and_leaves_no_narrow_neighbours(given_blocks: list[LaneBlock], narrow_s: float) -> None:
    shown = merge(given_blocks, narrow_s)
    merged = [block for block in shown if isinstance(block, MergedBlock)]
    plain = [block for block in shown if isinstance(block, LaneBlock)]
    narrow = [b for b in given_blocks if b.kind == "past" and b.end is not None and b.end - b.begin < narrow_s]

    assert sum(block.count for block in merged) + len(plain) == len(given_blocks)
    assert {block.job for block in plain} >= {b.job for b in given_blocks} - {b.job for b in narrow}
    assert sum(b.is_failed for b in plain) + sum(b.failed for b in merged) == sum(b.is_failed for b in given_blocks)
    assert shown == sorted(shown, key=lambda block: block.begin)
    area = sum(b.amount * (b.end - b.begin) for b in narrow if b.end is not None)
    drawn = sum(b.amount * (b.end - b.begin) for b in merged if b.end > b.begin)
    drawn += sum(b.amount * (b.end - b.begin) for b in plain if b in narrow and b.end is not None)
    assert abs(area - drawn) < 1e-6
    for block in merged:
        assert block.count >= 2 and block.least <= block.most and block.end >= block.begin
    seen = sorted([(b.begin, b.end) for b in merged] + [(b.begin, b.end) for b in plain if b in narrow])
    for (_, end), (begin, _) in pairwise(seen):
        assert end is not None and begin - end >= narrow_s, "they would be one block"


@given(st.lists(blocks(), max_size=4), st.integers(4, 30))
def test_there_are_never_more_blocks_than_asked_for_beside_those_that_cannot_be_merged(
    lanes: list[list[LaneBlock]], most: int
) -> None:
    given_lanes = {LaneKey("w", "gpu", str(at)): lane for at, lane in enumerate(lanes)}
    shown = merge_lanes(given_lanes, 0.5, most)
    count = sum(map(len, shown.values()))
    unmergeable = sum(block.kind != "past" for lane in lanes for block in lane)
    assert count <= most or count <= unmergeable + len(lanes)
    assert shown.keys() == given_lanes.keys()


def test_an_allocation_is_drawn_on_the_devices_it_holds_or_on_the_lane_of_its_worker() -> None:
    assert parts_of({"gpu": {"0": ONE, "1": ONE // 2}, "cpu": 4 * ONE}) == (("gpu", "0", 1.0), ("gpu", "1", 0.5))
    assert parts_of({"slot": {"0": ONE}, "gpu": {"3": ONE}, "vram": {"3": 9 * ONE}}) == (("gpu", "3", 1.0),)
    assert parts_of({"cpu": 4 * ONE, "mem": ONE}) == (("cpu", None, 4.0),)
    assert parts_of({}) == parts_of({"slot": {"0": ONE}}) == (("cpu", None, 1.0),)
    keys = [LaneKey("b", "gpu", "2"), LaneKey("a", "cpu"), LaneKey("a", "gpu", "10"), LaneKey("a", "gpu", "9")]
    assert sorted(keys, key=lambda key: key.order) == [keys[3], keys[2], keys[1], keys[0]]
