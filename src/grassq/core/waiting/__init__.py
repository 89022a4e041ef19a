"""What a job waits for before it is queued, and what follows from an end.

`waits.py` has the things that a job can wait for, `conditions.py` what a job says about other jobs. `dependencies.py`
is the index of unmet dependencies: which jobs an end sets free, and which can never start. `start_times.py` knows the
next job whose time has come. `retries.py` decides whether a failed attempt is tried again, and when.

May import `core`. Pure: the times are passed in.

When a condition can no longer come true, the dependent job fails with a reason that names the other job; nothing waits
for ever without saying why.
"""
