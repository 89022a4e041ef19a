"""Suspending an attempt: every process of it is stopped, and goes on later, with or without a daemon.

Enter at `order.py`, the worker's end: it writes the order into the run dir and wakes the shim. `stopped_tree.py` is the
shim's end: it stops the whole tree, or lets it go on, notes that, and counts the seconds in between. `notes.py` has the
two files of the run dir: `suspend`, written by the worker, and `suspended`, written by the shim.

May import what `grassq.run` may; a machine over ssh runs `stopped_tree.py` and `notes.py` with Python 3.8 or later.

When the daemon is killed between order and signal, the next daemon gives the order again. When the shim is killed, the
processes stay as they are, and the worker signals them itself. A shim of an earlier release says in its claim that it
cannot suspend; the order is refused then.
"""
