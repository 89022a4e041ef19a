"""Resources: amounts, capacities, what is taken of them, and whether a request fits.

`amounts.py` reads and writes amounts, which are integers (millionths of a unit). `capacity.py` says what a machine has
and what a queue may use: devices with ids, or pools. `ledger.py` counts what is taken, `fit.py` finds the devices of a
request, `slots.py` hands out named slots, `device_changes.py` has the devices that people add, remove and drain.
`disk_floor.py` says how much of a disk stays free.

Pure, like all of `core`; imports `core.names` and `core.syntax`.

When a queue is changed while its jobs run, its ledger is made anew and the running jobs are counted again, so the sum
of all allocations stays what the jobs really hold. A device is never given beyond its capacity; a job that no longer
fits waits.
"""
