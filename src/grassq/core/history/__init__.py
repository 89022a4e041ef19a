"""History: what jobs that have ended took and how they ended, counted in groups.

`tally.HistoryTally` takes one run after the other and keeps sums, so a caller may read the runs in steps, however many
there are. Enter at `HistoryTally.add` and `HistoryTally.rows`.

Pure, like all of `core`: the caller says which group a run belongs to, and what day it was. It may import `core` only.

When there are more groups than GROUPS_MAX, further ones are counted as one group, OTHERS.
"""
