"""Submissions: from a request's words or body to a draft that the broker can store.

Enter at `handler.py`. `validate.py` checks amounts, queue, directory and program; `program_check.py` looks for the
program, in a cache or on a thread; `bulk.py` makes thousands of jobs from one template; `json5_text.py` reads JSON5.

May import what `grassq.web` may.

When anything is wrong, the first problem is reported in one line with an exit code. Nothing is stored then:
a bulk submission is stored whole or not at all.
"""
