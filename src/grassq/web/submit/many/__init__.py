"""Requests that make many jobs: lines, arrays, lists, sweeps, batches and sweeps in files.

`typed_jobs.py` reads what was typed or sent into drafts; `sources.py` reads lists and grids that are sent as text.
`bulk.py` makes jobs of lines and commands, `expand.py` jobs of indexes and points, `batches.py` jobs of a batch as
GPUPeasy writes them. `apply.py` applies a sweep in a file.

May import the rest of `web.submit`, `broker` and `core`.

When one of the jobs is refused, nothing of the request is stored; the answer names the line, the point or the index.
"""
