"""Suspended jobs: what may happen to them, and when one that has given its devices back may go on.

`events.py` has the events and their rules, which `core.states` adds to its table. `room.py` decides which jobs get
their own devices again, and names the jobs that are in the way of the others. `record.py` is
what a job keeps of its suspension; `core.reconcile` orders it from workers.

Pure, like all of `core`: imports `core` only. Used by `core.states`, `core.planner`, `broker` and `worker`.

A job that has given its devices back holds nothing until `Regain`, which is stored before the worker is told to let
it go on. When a worker does not answer, the job stays as it was and the order is repeated. When a worker lies, its own
devices are given out twice, and no other worker's.
"""
