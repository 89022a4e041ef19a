"""The daemon: builds store, broker, worker and web server, joins them, and closes them again.

Enter at `main.py` (`run`). `broker_role.py` and `worker_role.py` put together the two roles a daemon can have;
`context.py` is what both need. `home_lock.py` makes sure that one home has one daemon, `saved_mode.py` remembers how
the daemon was started. This is the only package that imports every layer below it.

When the daemon is killed, its jobs run on under their shims. The next daemon of the home takes the lock, reads the
store, looks into the run dirs, and learns from them what ended meanwhile. When another daemon has the home, this one
says so and exits with 5.
"""

from grassq.daemon.main import copy_store, run

__all__ = ["copy_store", "run"]
