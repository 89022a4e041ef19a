"""Logs: what jobs wrote, whole or as it grows, from this machine or another.

`serve.py` answers a request for a log; `cache.py` keeps copies of the logs of ended jobs of other machines, so that
they are there when the worker is not.

May import what `grassq.web` may.

When a worker is out of touch, its running jobs' logs cannot be read and the answer says so; ended jobs' logs come
from the cache. When a log shrinks because the job truncated it, the reader is told at which byte.
"""
