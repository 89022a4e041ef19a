"""Commands of other schedulers, word for word: `simple_gpu_scheduler` and `simple_hypersearch`.

Each command is a client of the daemon. It translates its arguments into jobs, queues and slots of Grass, and prints
what the original program prints. So two schedulers, or a scheduler and any queue, never give one device to two jobs.

Enter at `simple_gpu_scheduler/entry.py` and `simple_hypersearch.py`.

May import `sdk`, `net`, `home`, `core.syntax` and the parts of `cli` that draw on a terminal.

When one of these commands is killed, its jobs stay in the queue and run; the next call reports their results.
"""
