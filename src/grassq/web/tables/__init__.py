"""The data of the pages Jobs, Job and Sweep: tables of any number of jobs, actions on all that match, one job whole.

Enter at `routes.py`, which also reads what a table is asked for. `windows.py` keeps tables in memory: one order of ids
per query and sort, patched from the ring of changes. `act.py` does one action on all jobs that match. `job_page.py` has
all that a page shows of one job, `sweeps.py` the parameters and results of a sweep as columns, and `documents.py` the
types of these answers.

May import what `grassq.web` may. A table is read in steps, and the engine is held for one step only.

When a table is not complete yet, or has more jobs than LOOKED_AT_MAX, its answer says `is_exact: false`.
"""
