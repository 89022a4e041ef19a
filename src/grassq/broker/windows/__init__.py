"""Tables of jobs: the ids of all jobs that match a query, sorted by a column, so that any row is found at once.

Enter at `job_order.py`: `RowCollector` gathers rows while they are read, `JobOrder` has them sorted, gives any slice,
counts them, and is patched when jobs change. `reading.py` has the steps that read rows in the engine. The cache of
orders and the routes are in `grassq.web.tables`. `sweep_jobs.py` reads the jobs of one sweep.

May import `broker`, `core` and `store`. Of a job an order has 22 bytes and the text of its sort key, never the job
itself.

When jobs changed that were not told, the order is read again from the beginning; an order is never half patched.
"""
