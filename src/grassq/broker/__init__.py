"""The broker: it owns one store, decides what happens to every job, and gives orders to workers.

Enter at `engine.py`, the loop: drain the inbox (`inbox.py`), decide, commit once, and only then answer and send orders.
`decider.py` turns one batch of messages (`batch.py`) into changes: `waiting/` says what jobs wait for,
`dispatch.py` which orders are due, `recovery.py` handles a store that was restored from a backup. `service.py`
and `actions/` have the user's actions; `selection.py` finds the jobs a selector names, `job_list.py` lists jobs in
pages, `views.py` makes the documents that are shown, `forecasts/` reads what a forecast needs. `subscriptions.py` tells
clients of committed changes (`job_change.py`). `tokens.py` and `worker_records.py` decide which clients and which
workers are let in. `sweeps/` keeps sweeps and their limits, `summary/` has the lists of screens about many jobs,
`windows/` tables of jobs, `documents/` the types of documents.

May import `core` and `store`; never `worker` or `web`. Only `engine.py` and `subscriptions.py` are asynchronous.

When a commit fails, the board is ahead of the store. The decider drops the board, reads the store again, and answers
every submission of the batch by its key: stored, or refused with the cause. After two failures in a row it only
reads, starts nothing, and tries again every 5 seconds; reports wait in the run dirs of the workers meanwhile.
"""
