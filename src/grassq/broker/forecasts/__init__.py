"""What a forecast reads from a batch: a picture of the board, the jobs that ended lately, and the jobs asked about.

Enter at `reading.py`; `documents.py` makes what users see of a forecast; `predictions.py` stores what was said of jobs
and judges it. The forecast itself is `core.forecast`, played
in a thread of `web.forecast` and never inside a batch.

May import `core`, `store` and the rest of `broker`; never `web`. Synchronous.

Every function here reads a bounded number of jobs: `JOBS_AHEAD_MAX` queued ones for a picture, one page of others.
When a job is removed from the store meanwhile, it is left out.
"""
