"""Install and remove the service of a home: the steps, in words and in deeds."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Literal, NamedTuple

from grassq import home as homes
from grassq.cli.service import crontab, systemd
from grassq.cli.service.unit import Starter, cron_line, unit_text
from grassq.errors import GrassError, Refused, Unreachable
from grassq.net.autostart import start as start_daemon
from grassq.net.client import ApiClient
from grassq.net.http import answers

#: How long the daemon of the unit may take until it answers.
ANSWER_S = 20.0
LOOK_S = 0.05
MEMORY = "memory"

Kind = Literal["systemd", "crontab", "none"]
#: Ends the daemon of a home and waits for its end; jobs run on.
StopDaemon = Callable[[str], object]


class Installed(NamedTuple):
    """What was installed or removed."""

    kind: Kind
    #: The unit's file, or the line.
    what: str
    changed: bool
    notes: list[str]


def kind_here() -> Kind:
    """Return what starts programs at boot here."""
    if systemd.is_there():
        return "systemd"
    return "crontab" if crontab.is_there() else "none"


def install(starter: Starter, stop: StopDaemon) -> Installed:
    """Install the service and let it take the running daemon over; jobs keep running."""
    kind = kind_here()
    if kind == "none":
        raise Refused(nothing_starts())
    if kind == "systemd":
        _refuse_memory(starter.home)
        changed = systemd.write(starter)
        crontab.delete(starter)
        taken = _take_over(starter, stop, changed=changed)
        return Installed(kind, str(systemd.file_of(starter)), changed or taken, [*linger_notes(), *_variables()])
    changed = crontab.write(starter)
    if not answers(starter.home):
        start_daemon(starter.home)
    notes = [] if crontab.runs() else ["no cron runs here now, so the line has no effect until one is started"]
    return Installed(kind, cron_line(starter), changed, [*notes, *_variables()])


def plan(starter: Starter) -> list[str]:
    """Return what `install` would do, line by line."""
    kind = kind_here()
    if kind == "none":
        raise Refused(nothing_starts())
    if kind == "crontab":
        return ["would add this line to your crontab (crontab -e):", cron_line(starter)]
    path, unit = systemd.file_of(starter), starter.unit
    return [
        f"would write {path}:",
        *(f"    {line}".rstrip() for line in unit_text(starter).splitlines()),
        f"would run: systemctl --user daemon-reload && systemctl --user enable {unit}",
        f"would run: grass stop && systemctl --user start {unit}     (jobs keep running)",
        *linger_notes(),
    ]


def remove(starter: Starter) -> Installed:
    """Remove the service; a daemon that the service ran is started again without it."""
    was_running = answers(starter.home)
    by_unit = systemd.delete(starter)
    by_cron = crontab.delete(starter)
    if was_running and not answers(starter.home):
        start_daemon(starter.home)
    if by_unit:
        return Installed("systemd", str(systemd.file_of(starter)), True, [])
    return Installed("crontab" if by_cron else "none", "", by_cron, [])


def found(starter: Starter) -> str | None:
    """Return what `remove` would remove."""
    if systemd.installed(starter) is not None:
        return str(systemd.file_of(starter))
    return crontab.installed(starter) if crontab.is_there() else None


def start_by_service(starter: Starter) -> bool:
    """Start the daemon by its unit, if it has one that systemd knows; return False if it has none."""
    if systemd.installed(starter) is None or not systemd.is_there():
        return False
    systemd.start(starter)
    _await_answer(starter)
    return True


def linger_notes() -> list[str]:
    """Return what to do so that the unit also starts without a login."""
    if systemd.lingers() is not False:
        return []
    return [
        "without lingering the service starts when you first log in and ends, with its jobs, at your last logout;"
        " run once: loginctl enable-linger"
    ]


def nothing_starts() -> str:
    """Return what to do where nothing starts programs at boot."""
    if "microsoft" in os.uname().release.lower():
        return (
            "this WSL starts no programs by itself: put `[boot]` and `systemd=true` into /etc/wsl.conf, run"
            " `wsl --shutdown` in Windows, then `grass install-service` again"
        )
    if Path("/run/systemd/system").is_dir():
        return (
            "the systemd of your user cannot be reached (after `su` or `sudo`?) and you have no crontab; log in as"
            " yourself, then `grass install-service` again"
        )
    return (
        "neither a systemd of your user nor a crontab is here (a container?); let what starts this machine call"
        " `grass start`, or make `grass daemon` the program of the container"
    )


def _refuse_memory(home: str) -> None:
    """Refuse to end a daemon whose jobs would end with it."""
    if answers(home):
        with ApiClient(home, autostart=False) as client:
            if client.info().get("store") == MEMORY:
                raise Refused(
                    "the running daemon has its store in memory, so its jobs would be lost; `grass stop` first"
                )


def _take_over(starter: Starter, stop: StopDaemon, *, changed: bool) -> bool:
    """Let the unit run the daemon; return False if it does already, as the unit says now."""
    if answers(starter.home):
        with ApiClient(starter.home, autostart=False) as client:
            info = client.info()
        if not changed and info.get("pid") == systemd.main_pid(starter) and info.get("python") == starter.python:
            return False
        stop(starter.home)
    systemd.start(starter, again=True)
    _await_answer(starter)
    return True


def _await_answer(starter: Starter) -> None:
    deadline = monotonic() + ANSWER_S
    while not _does_answer(starter.home):
        if monotonic() > deadline:
            raise Unreachable(
                f"the daemon of {starter.unit} does not answer; see {starter.home}/{homes.LOG_NAME} and"
                f" `systemctl --user status {starter.unit}`; `grass install-service --remove` removes the service"
            )
        sleep(LOOK_S)


def _does_answer(home: str) -> bool:
    try:
        return answers(home)
    except GrassError:
        return False


def _variables() -> list[str]:
    """Return a note about variables of this shell that the service does not have."""
    kept = ("GRASS_HOME", "GRASS_BROKER")
    names = sorted(name for name in homes.environment_text() if name.startswith("GRASS_") and name not in kept)
    if not names:
        return []
    return [
        f"the service does not see {shlex.join(names)} of this shell; put such settings into grass.toml in the home"
    ]
