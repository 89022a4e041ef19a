"""The handlers of the routes, by noun: jobs, queues, tokens.

`jobs.py` has the actions on jobs, `job_list.py` jobs in pages, `recent_jobs.py` those that have not ended or ended
lately, `waits.py` waits for ends, `history.py` sums of ended jobs, `complete.py` the words for a shell. `queues.py`,
`devices.py`, `limits.py`, `machines.py`, `tokens.py`, `notices.py` and `config.py` are about what their names say.
`standby.py` and `worker_only.py` have the routes of daemons that lead no store. A handler reads the request
(`grassq.web.requests`), asks the broker's `service` or `views` through the engine, and makes the answer
(`grassq.web.responses`). It decides nothing itself. `grassq.web.app` has the table of routes.

May import what `grassq.web` may.

When the same request arrives twice, because a connection broke before the answer, its key gives the answer of the
first.
"""
