"""The timeline: what ran on each device, as blocks on lanes, however many attempts there were.

`blocks.py` has the blocks, and says on which lanes an allocation is drawn. `merge.py` merges blocks that would be too
narrow to see: neighbours become one block with their count.

Pure, like all of `core`: imports `core` only. Used by `web.timeline`, which reads the attempts and asks the forecast.

Every block is either drawn or counted in a merged one. When there are still too many, wider blocks are merged too.
"""
