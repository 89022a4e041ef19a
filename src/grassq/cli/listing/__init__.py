"""Listing: jobs, queues and workers as tables and as one screen, for `grass show`.

`screen.py` lays out the screen without a selector: what runs, what is next, what failed, the sweeps. `table.py` makes
the table of selected jobs from the columns in `columns.py`. `grid.py` fits both to a width: it leaves out the least
useful columns and shortens commands to what differs (`differences.py`). `one_job.py`, `machines.py` and `tree.py` print
one job, the queues and workers, and runs below the jobs that they repeat. `watch.py` draws again and again. `bars.py`
draws bars.

May import `cli.render`, `cli.job_text` and what `grassq.cli` may. Every `grass show` loads a part of this package, so
its files import next to nothing.

When a daemon of an earlier release leaves out a field, its cells are empty. All text from jobs is cleaned before its
width is measured.
"""
