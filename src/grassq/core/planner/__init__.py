"""The planner: which queued job starts where, and why another one does not.

Enter at `plan.py` (`plan(board, now)`) and `explain.py` (`explain(board, job, now)`); both use the same `fit`. The
board (`board.py`) is the broker's picture of everything unfinished: `workers.py` has what each worker said and what
is taken there, `request_classes.py` and `sorted_orders.py` the queued jobs. `scan.py` finds the starts,
`reservations.py` reserves devices for a job passed too often, `prefetch.py` places short jobs behind one another.
`firstfit` answers which of a million waiting jobs is the first that fits.

Pure, like all of `core`: imports `core` only. Used by `broker`.

When nothing large ever fits because small jobs keep starting, the first blocked job of a queue becomes its head;
after 64 passes or 10 minutes it reserves what it needs on one worker, and so it starts.
"""
