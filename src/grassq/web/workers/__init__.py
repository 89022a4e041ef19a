"""The broker's end of its workers on other machines.

`registry.py` admits a worker that dials in and knows every connection; `connection.py` is one of them: orders out,
reports in, questions and answers; `directory.py` finds the worker that can answer for a job's log or a queue.

May import what `grassq.web` may, and `link`.

When a worker is silent for 15 seconds, its connection is closed and its jobs are shown as unreachable. They are not
started elsewhere unless they asked for it and their lease is over. When the worker dials in again, both sides say
what they believe, and reconciling finds what is different.
"""
