"""The handlers of the routes, by noun: jobs, queues, tokens.

`job_list.py` answers with jobs in pages; `worker_only.py` has the routes of a daemon that is only a worker. A handler
reads the request (`grassq.web.requests`), asks the broker's `service` or `views` through the engine, and
makes the answer (`grassq.web.responses`). It decides nothing itself. `grassq.web.app` has the table of routes.

May import what `grassq.web` may.

When the same request arrives twice, because a connection broke before the answer, its key gives the answer of the
first.
"""
