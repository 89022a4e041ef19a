"""Why the queue of a home would not go on after a reboot, for `grass doctor`."""

from __future__ import annotations

from pathlib import Path

from grassq.cli.service import crontab, systemd
from grassq.cli.service.install import kind_here, linger_notes, nothing_starts
from grassq.cli.service.unit import Starter, cron_line, python_of, unit_text

AGAIN = "`grass install-service` writes a new one"


def after_reboot(starter: Starter) -> tuple[bool, str, str]:
    """Return whether the daemon comes back by itself, what was found, and what to do."""
    unit = systemd.installed(starter)
    kind = kind_here()
    if unit is not None:
        return _unit(starter, unit, is_reached=kind == "systemd")
    line = crontab.installed(starter) if crontab.is_there() else None
    if line is not None:
        return _line(starter, line)
    advice = nothing_starts() if kind == "none" else "`grass install-service`"
    return False, "nothing starts the daemon: waiting jobs wait until the next command", advice


def _unit(starter: Starter, unit: str, *, is_reached: bool) -> tuple[bool, str, str]:
    path, python = systemd.file_of(starter), python_of(unit)
    if python is not None and not Path(python).exists():
        return False, f"{path} starts {python}, which is gone", AGAIN
    if python is not None and python != starter.python:
        return False, f"{path} starts another Python: {python}, not {starter.python}", AGAIN
    if unit != unit_text(starter):
        return False, f"{path} is not as this version writes it", AGAIN
    if not is_reached:
        return False, f"{path} is there, but no systemd of your user answers", nothing_starts()
    if not systemd.is_enabled(starter):
        return False, f"{starter.unit} is not enabled", f"`systemctl --user enable {starter.unit}`"
    if notes := linger_notes():
        return False, f"{starter.unit} starts the daemon only when you log in", notes[0]
    return True, f"{starter.unit} starts the daemon", ""


def _line(starter: Starter, line: str) -> tuple[bool, str, str]:
    if line != cron_line(starter):
        return False, f"your crontab starts another Python or home: {line}", AGAIN
    if not crontab.runs():
        return False, "your crontab starts the daemon, but no cron runs", "start cron, or enable it at boot"
    return True, "your crontab starts the daemon", ""
