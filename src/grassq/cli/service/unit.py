"""What is started, and how systemd and cron write it. Pure, apart from what `here` finds out about this process."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from typing import NamedTuple

from grassq import home as homes
from grassq.errors import Refused
from grassq.net.autostart import source_root

#: Exit codes after which a new start would fail too: wrong options or settings.
USAGE = 2
RESTART_S = 10
#: systemd starts no program with one of these in its path.
UNSTARTABLE = frozenset("\"'\\")
STOP_S = 40

_UNIT = """\
# Written by `grass install-service`, which replaces it; `grass install-service --remove` removes it.
[Unit]
Description=Grass job queue ({home})
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
{environment}\
WorkingDirectory=/
# Only the daemon ends with the service. Its jobs run on, and the next daemon finds them.
KillMode=process
TimeoutStopSec={stop_s}
Restart=on-failure
RestartSec={restart_s}
RestartPreventExitStatus={usage}
# A job that needs too much memory must not end the daemon.
OOMPolicy=continue
Delegate=yes
TasksMax=infinity

[Install]
WantedBy=default.target
"""


class Starter(NamedTuple):
    """Which daemon is started, by which Python."""

    python: str
    home: str
    #: A folder that the Python must be told of to find Grass; None where Grass is installed.
    path: str | None
    #: Whether it is the home of a user that chose none.
    is_usual: bool

    @property
    def unit(self) -> str:
        """The name of the unit: one for each home."""
        if self.is_usual:
            return "grass.service"
        return f"grass-{hashlib.sha256(self.home.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}.service"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the daemon."""
        return {"GRASS_HOME": self.home, **({"PYTHONPATH": self.path} if self.path else {})}


def here(home: str) -> Starter:
    """Return the daemon of a home, started by the Python of this process; Refused if no file can say so."""
    starter = Starter(sys.executable, home, source_root(), homes.is_usual(home))
    for text in (starter.python, starter.home, starter.path or ""):
        if not text.isprintable():
            raise Refused(f"a service cannot name {text!r}: it has characters that are no text; rename the folder")
    if not starter.python or set(starter.python) & UNSTARTABLE:
        named = starter.python or "this Python, which does not know its own path"
        raise Refused(f"no service can start {named}; install Grass in a folder with a plain name")
    return starter


def unit_text(starter: Starter) -> str:
    """Return the unit of systemd."""
    environment = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in starter.environment.items()]
    return _UNIT.format(
        home=starter.home.replace("%", "%%"),
        # systemd replaces $NAME in the words after the program, not in the program.
        command=f"{_quoted(starter.python)} -P -m grassq daemon --saved",
        environment="".join(environment),
        stop_s=STOP_S,
        restart_s=RESTART_S,
        usage=USAGE,
    )


def cron_line(starter: Starter) -> str:
    """Return the line of a crontab, without its end."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in starter.environment.items()]
    words = [*variables, shlex.quote(starter.python), "-P -m grassq start >/dev/null 2>&1"]
    # In a crontab a plain % ends the command.
    return f"@reboot {' '.join(words)}".replace("%", r"\%") + f" {cron_mark(starter)}"


def cron_mark(starter: Starter) -> str:
    """Return the comment that tells our line in a crontab from others."""
    return f"# grass install-service: {starter.unit.removesuffix('.service')}"


def python_of(unit: str) -> str | None:
    """Return the Python that a unit starts; None if that cannot be read."""
    found = re.search(r'^ExecStart="((?:[^"\\]|\\.)*)"', unit, re.MULTILINE)
    if found is None:
        return None
    return re.sub(r"\\(.)", r"\1", found[1]).replace("%%", "%")


def _quoted(word: str) -> str:
    """Return a word in quotes, as systemd reads them."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
