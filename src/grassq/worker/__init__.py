"""The worker: offers one machine's capacity to one broker, and runs what the broker orders.

Enter at `worker.py`. `agent.py` turns orders into processes and their ends into reports; `attempts.py` is what it
knows of each attempt. `machine.py` is the seam to processes, `local_machine.py` this computer. `offers.py` keeps the
queues of this machine, `run_spec.py` fills in what the command gets, `leases.py` renews leases, `unacked.py` repeats
reports. `broker_link.py` dials a broker elsewhere and keeps trying, `broker_session.py` is one such connection.
`devices` detects.

May import `core`, `run`, `link` and `net`; never `broker`.

When an order arrives twice, the second one finds the run dir claimed and nothing starts twice. When a report is not
acknowledged, it is repeated, also by the next daemon: the exit record in the run dir is the outbox.
"""
