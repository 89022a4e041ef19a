"""Submissions: from a request's words or body to a draft that the broker can store.

Enter at `handler.py`; `storing.py` stores what a request has, and `many/` makes the jobs of a request that has many.
`validate.py` checks amounts, queue, directory and program; `queue_snapshot.py` is what it knows of queues, and
`program_check.py` looks for the program, in a cache or on a thread. `file_options.py`, `waiting_options.py` and
`notify_targets.py` check the options of these kinds, `outputs.py` makes the files of `--output`, `json5_text.py` reads
JSON5. `rerun.py` is for a job that is run again with changes, and `edit.py` changes jobs that have not started.

May import what `grassq.web` may.

When anything is wrong, the first problem is reported in one line with an exit code. Nothing is stored then:
a bulk submission is stored whole or not at all.
"""
