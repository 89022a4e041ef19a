"""Processes: start a command, supervise it, end it with all its children, and keep what it wrote.

Enter at `shim_pool.py`, the daemon's end. The launcher (`launcher.py`) is a program of its own that forks shims; a shim
(`shim.py`) runs one attempt at a time: it claims the run dir, starts the command (`spawn.py`), waits, ends what the
command left behind (`processes.py`) and writes the exit record. `rundir.py` alone knows the files of a run dir, which
are the protocol between daemon and shims, also of other releases. `lease_timer.py` ends an attempt whose lease is over,
`limits/` one whose time is over. `lone_shim.py` runs one attempt on a machine over ssh with Python 3.8 or later: what
it loads keeps to that.
`exit_record.py` and `attempt_notes.py` have records and notes of a run dir, `log_files.py` reads logs, `log_cap.py`
cuts them, `output/` gives a log another name, `suspension/` stops the processes of an attempt. `wrapper.py` makes the
environment of a command, `own_daemon.py` finds a daemon that a job has started.

Imports the standard library, `core.result`, which reads the result of a job, and `core.printable` for the texts of
its records. Has no threads: a shim lives beside every job.

When the daemon is killed, a busy shim finishes its attempt, writes the exit record, syncs it to disk and exits. When
a shim is killed, its command runs on; the worker sees that the supervisor is gone, keeps the devices, and reports an
unknown end when the last process of the command is gone.
"""
