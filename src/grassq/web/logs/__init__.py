"""Logs: the output of jobs, whole or as it grows, from this machine or another.

`serve.py` answers a request for a log; `tail.py` reads one log as it grows; `cache.py` keeps copies of the logs of
ended jobs of other machines, for the time when the worker is not connected; `last_lines.py` reads the ends of many logs
for lists of jobs: the last line, how far a job is, and why it probably failed. `lines.py` answers with lines as people
see them, from any place of a long log: `index.py` counts lines once and remembers places, `index_file.py` keeps them.
`search.py` answers a search, `search_run.py` runs it with a process of its own, `search_process.py`, and
`search_parts.py` says in which order the log is searched; `raw_search.py` finds a text in bytes that need no folding.
`download.py` answers with a log as a file.

May import what `grassq.web` may.

When a worker is not connected, the logs of its running jobs cannot be read and the answer says so; logs of ended jobs
come from the cache. When a job truncates its log, the reader is told the offset.
"""
