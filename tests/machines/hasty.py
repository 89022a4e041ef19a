"""Run `grass WORDS` with short waits for machines over ssh: `python -m tests.machines.hasty WORDS`.

A fault run has thousands of dead lines to notice. How long a line is waited for changes no decision, only when it is
made: a wait that is too short makes one more lost connection.
"""

from __future__ import annotations

import sys

from grassq.cli.main import main as grass
from grassq.machines import far_end, machine_thread, ssh_machine
from grassq.machines.ssh import backoff
from grassq.machines.ssh.transport import SshTransport


def hurry() -> None:
    """Make the waits short."""
    far_end.REQUEST_S = 4.0
    far_end.OPEN_S = 8.0
    defaults = SshTransport.__init__.__kwdefaults__
    assert defaults is not None
    defaults.update(login_s=5.0, open_s=5.0)
    ssh_machine.HEARTBEAT_S = 0.5
    machine_thread.LOOK_S = 0.1
    backoff.AWAY_S = backoff.TURNED_AWAY_S = (0.1, 0.5)


if __name__ == "__main__":
    hurry()
    sys.exit(grass(sys.argv[1:]))
