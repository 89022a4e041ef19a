"""The planner: which queued job starts where, and why another one does not.

Enter at `plan.py` (`plan(board, now)`) and `explain.py` (`Outlook(board, now)`); both use the same `Scan`. The board
(`board.py`) is the broker's picture of everything unfinished: `fleet.py` and `workers.py` have what each worker said
and what is taken there, `request_classes.py` and `sorted_orders.py` the queued jobs. `scan.py` finds the starts on an
`overlay.py`. `kept_room.py` says which waiting jobs keep room (`left_jobs.py` finds them), `reservations.py` what they
keep, and `heads.py` which of them were passed too often. `prefetch.py` places short jobs behind one another.
`firstfit` answers which of a million waiting jobs is the first that fits. `ranks.py` has the places of jobs among jobs
of equal priority. `limits` has when a head starts by the time limits of others, and how much groups of jobs may hold
at once.

Pure, like all of `core`: imports `core` only. Used by `broker`.

A waiting job keeps room from jobs of lower priority at once. When nothing large ever fits because small jobs of equal
priority keep starting, the first blocked job of a queue becomes its head; after 64 passes or 10 minutes it keeps room
from them too, and so it starts. Where the time of its start is known, jobs that end before it may use the room.
"""
