"""The limits of a running attempt that its shim keeps: of its time, and of the time without output.

Enter at `time_limits.py`: `of` when the command has started, `passed` at every turn of the shim until a limit is over.

May import what `grassq.run` may. Runs on machines over ssh with Python 3.8 or later, like all of the shim;
`machines/far/supervisor.sh` keeps the same limits where there is no Python.

When a log cannot be looked at, its job counts as writing: a limit never ends a job because of an error of ours.
"""
