"""Sweeps at the broker: their records, their limits, and sweeps that are applied again.

`objects.py` makes a sweep of new jobs and notes jobs that are added to one. `limits.py` keeps the limits of sweeps that
have an unfinished job: how many jobs run at once, and after how many failures the sweep stops. `apply.py` runs what is
new, changed or failed of a sweep that is applied again.

This package may import `broker.batch`, the rest of `store` and `core`; `service` and `decider` call it.

A stopped sweep has up to 100,000 jobs to cancel: `limits.py` cancels CANCELLED_MAX of them in a batch, and none of them
can start meanwhile. When the daemon is killed in between, the reason is in the row of the sweep, and the next daemon
goes on.
"""
