"""Limits as the planner sees them: how long attempts last at most, and how much a group of jobs may hold at once.

`attempt_times.py` has when attempts began, `known_starts.py` when a waiting job starts by the time limits of others
(backfill, ADR 039). `membership.py` says which groups a job is part of, `groups.py` counts what groups with a limit
hold, and `group_room.py` what a plan may still give them
(ADR 040).

Pure, like all of `core`; imports `core` only. Used by the other files of the planner.

When the broker restarts, the times of older attempts are not known: no job relies on their time limits any more. What
groups hold is counted anew from the jobs.
"""
