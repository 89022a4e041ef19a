"""The broker's side of its workers on other machines.

`registry.py` admits a worker that dials in and knows every connection. `connection.py` is one connection: orders out,
reports in, questions and answers. `directory.py` finds the worker that has a job's log or a queue.
`machine_admin.py` is what the routes ask of the machines over ssh.

May import what `grassq.web` may, and `link`.

When a worker is silent for 15 seconds, its connection is closed and its jobs are shown as unreachable. They are not
started elsewhere unless they asked for it and their lease is over. When the worker dials in again, it sends what it
holds, and the broker compares that with its store.
"""
