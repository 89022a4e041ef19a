"""The daemon: builds store, broker, worker and web server, connects them, and closes them again.

Enter at `main.py` (`run`). `broker_role.py` and `worker_role.py` build the two roles a daemon can have; `context.py` is
what both need, also the saved options of the command line. `home_lock.py` lets a home have one daemon only. This is the
only package that imports every layer below it. `machines.py` builds what keeps machines over ssh, `notices.py` what
tells people of ends; `standby.py` waits until no other broker leads. `log_file.py` is the daemon's log,
`lost_history.py` notices a store that does not know its jobs, and `sent_files.py` bounds what is kept of sent files.

When the daemon is killed, its jobs run on under their shims. The next daemon of the home takes the lock, reads the
store and the run dirs, and finds there what ended meanwhile. When another daemon has the home, this daemon says so and
exits with 5.
"""

from grassq.daemon.broker_role import keeps_queue
from grassq.daemon.context import SavedMode, load_mode
from grassq.daemon.machines import has_machines
from grassq.daemon.main import copy_store, run
from grassq.daemon.worker_role import become_worker

__all__ = ["SavedMode", "become_worker", "copy_store", "has_machines", "keeps_queue", "load_mode", "run"]
