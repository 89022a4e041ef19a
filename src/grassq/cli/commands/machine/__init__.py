"""machine: other computers as workers, over ssh.

`actions.py` has what people type: add, list, test, retry, remove, shell. `upgrade.py` makes a full worker of such a
machine. The daemon does the rest: it has the book of machines and keeps each of them connected. `far_scripts.py` has
the scripts that `upgrade.py` runs there, `wheel.py` makes the wheel that it installs.

May import what `grassq.cli` may.

When the daemon refuses, its words are one line on stderr. Only `shell`, the question about a host key, and `upgrade`
run ssh themselves, on the terminal of the user.
"""

from grassq.cli.commands.machine.actions import words

__all__ = ["words"]
