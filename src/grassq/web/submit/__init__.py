"""Submissions: from a request's words or body to a draft that the broker can store.

Enter at `handler.py`. `validate.py` checks amounts, queue, directory and program against what the daemon knows;
`program_check.py` looks for the program, from a cache or on a thread; `bulk.py` makes thousands of jobs from one
template; `json5_text.py` reads JSON5.

May import what `grassq.web` may.

When anything is wrong, the first problem is told in one line with an exit code, and nothing is stored: of a bulk
submission either all jobs are stored or none is.
"""
