"""Commands of other schedulers, word for word: `simple_gpu_scheduler`, `execute_batch`, GPUPeasy and others.

Each command is a client of the daemon. It translates its arguments into jobs, queues and slots of Grass, and prints
what the original program prints. So two schedulers, or a scheduler and any queue, never give one device to two jobs.

Enter at `simple_gpu_scheduler/entry.py`, `simple_hypersearch.py`, `execute_batch/entry.py`, `gpupeasy/entry.py` and
`slurm/entry.py`.
They share the modules here: `event_reader.py` receives the events of a queue on a thread, `messages.py` prints,
`signals.py` handles ctrl-C, `interruption.py` ends jobs after it.

May import `sdk`, `net`, `home`, `core.syntax`, `core.batches`, `files`, `peer_uid`, `slurm_links`, and the parts
of `cli` that read files or draw on a terminal.

When one of these commands is killed, its jobs stay in the queue and run; the next call reports their results.
"""
