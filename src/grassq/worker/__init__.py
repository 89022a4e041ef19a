"""The worker: offers one machine's capacity to one broker, and runs what the broker orders.

Enter at `worker.py`. `agent.py` turns orders into processes and their ends into reports; `attempts.py` is what the
agent knows of each attempt. `machine.py` is the interface to processes, `local_machine.py` is this computer.
`local_logs.py` reads logs on this computer, `folders.py` removes the folders of jobs, `strays.py` names run dirs
without a stored job. `offers.py` keeps the queues of this machine, `run_spec.py` makes the command and environment of
an attempt, `default_env.py` is the environment for jobs from other machines, `leases.py` renews leases.
`broker_link.py` connects to a broker on another machine and keeps trying, `broker_session.py` is one such connection.
`devices` detects. `job_files.py` and `local_files/` have the files of jobs.

May import `core`, `run`, `link` and `net`; never `broker`.

When an order arrives twice, the run dir is already claimed, so nothing starts twice. A report is repeated until the
broker acknowledges it, also by the next daemon: the exit record stays in the run dir.
"""
