"""What jobs wait for before they are queued.

`eligibility.py` says which jobs must wait for their queue, as queues and machines come and go. `dependents.py` finds
the jobs that a new job starts after, and decides about the jobs behind every end. `edited.py` changes what a job
waits for. `ends.py` goes on from the ends of a
batch, until nothing more follows. `documents.py` tells people what a job waits for.

May import the rest of `broker`, `store` and `core`.

When a batch is dropped because its commit failed, everything here is decided again from the store: an edge is met only
together with the end that met it.
"""
