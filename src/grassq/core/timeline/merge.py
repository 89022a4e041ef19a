"""Merges blocks of one lane that are too narrow to be drawn one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grassq.core.timeline.blocks import LaneBlock, LaneKey, MergedBlock

#: A block below this many pixels is narrow, and so is a gap.
NARROW_PX = 2.0
#: How often the width is doubled below which blocks are merged; then every lane is one block.
DOUBLINGS_MAX = 16

Shown = LaneBlock | MergedBlock


def merge(blocks: Iterable[LaneBlock], narrow_s: float) -> list[Shown]:
    """Return the blocks by their begin; narrow past ones that are next to each other become one."""
    shown: list[Shown] = []
    heap: list[LaneBlock] = []
    end = 0.0
    for block in sorted(blocks, key=lambda block: (block.begin, block.job, block.attempt)):
        if not _is_narrow(block, narrow_s):
            shown.append(block)
            continue
        assert block.end is not None
        if heap and block.begin - end >= narrow_s:
            shown.append(_merged(heap))
            heap = []
        end = max(end, block.end) if heap else block.end
        heap.append(block)
    if heap:
        shown.append(_merged(heap))
    return sorted(shown, key=lambda block: block.begin)


def merge_lanes(lanes: Mapping[LaneKey, Sequence[LaneBlock]], narrow_s: float, most: int) -> dict[LaneKey, list[Shown]]:
    """Return every lane with its narrow blocks merged; merge wider ones too while there are more than `most`."""
    for _ in range(DOUBLINGS_MAX):
        found = {key: merge(blocks, narrow_s) for key, blocks in lanes.items()}
        if sum(map(len, found.values())) <= most:
            return found
        narrow_s *= 2.0
    return {key: merge(blocks, float("inf")) for key, blocks in lanes.items()}


def _is_narrow(block: LaneBlock, narrow_s: float) -> bool:
    return block.kind == "past" and block.end is not None and block.end - block.begin < narrow_s


def _merged(blocks: list[LaneBlock]) -> Shown:
    if len(blocks) == 1:
        return blocks[0]
    begin, end = blocks[0].begin, max(block.end or block.begin for block in blocks)
    area = sum(block.amount * ((block.end or block.begin) - block.begin) for block in blocks)
    amounts = [block.amount for block in blocks]
    # Attempts that took no time at all are drawn with what they held.
    mean = area / (end - begin) if end > begin else max(amounts)
    failed = sum(block.is_failed for block in blocks)
    return MergedBlock(begin, end, len(blocks), failed, mean, min(amounts), max(amounts))
