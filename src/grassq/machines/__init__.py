"""Other computers as machines: reached over the user's own OpenSSH, with nothing installed there.

`transport.py` is the seam to a computer: it starts a shell command there and gives its three streams. `ssh/` is
OpenSSH, `far/` is what runs on the far side: POSIX sh, and a shim where Python is found. `far_end.py` asks the far
side, `ssh_machine.py` makes a `worker.machine.Machine` of it, and `keeper.py` keeps a worker of each machine connected;
what it asks besides goes through `extra_logins.py`. `book.py` has the machines that were added, `machine_thread.py`
keeps one of them connected, `checkup.py` tests one, and `measure/` knows what it has. `far_stream.py` carries requests,
`far_greeting.py` is the first answer, and `run_script.py` the command of an attempt as sh. `far_job_files.py` has the
files of jobs: `file_send.py` and `file_fetch.py` move them with `far_files.py`.

May import `core`, `run`, `worker`, `link`, `files`, and small files beside them.

When a call fails, it raises LinkLost, an OSError: the connection is made again, and the run dirs there say what
happened. Everything that the far side sends may be a lie or endless: every read has a bound in bytes and in time.
"""
