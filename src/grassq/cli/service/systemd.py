"""The systemd of this user: the file of the unit, and what systemctl and loginctl say."""

from __future__ import annotations

import os
from pathlib import Path

from grassq import atomic_files
from grassq.cli.service.tools import run
from grassq.cli.service.unit import Starter, unit_text
from grassq.errors import Refused
from grassq.home import environment_text

UNIT_MAX = 64 << 10


def is_there() -> bool:
    """Tell whether a systemd of this user answers."""
    return run("systemctl", "--user", "show-environment").is_ok


def folder() -> Path:
    """Return the folder of this user's units."""
    stated = environment_text().get("XDG_CONFIG_HOME", "")
    return (Path(stated) if stated.startswith("/") else Path.home() / ".config") / "systemd" / "user"


def file_of(starter: Starter) -> Path:
    """Return the file of the unit."""
    return folder() / starter.unit


def installed(starter: Starter) -> str | None:
    """Return the text of the unit that is installed; None if none is."""
    try:
        with file_of(starter).open("rb") as file:
            return file.read(UNIT_MAX).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"cannot read {file_of(starter)}: {error.strerror}") from error


def write(starter: Starter) -> bool:
    """Write the unit and let systemd read it; return False if it was there already."""
    is_new = installed(starter) != unit_text(starter)
    if is_new:
        place = folder()
        try:
            place.mkdir(parents=True, exist_ok=True)
            atomic_files.write_aside(str(place), starter.unit, unit_text(starter).encode(), True)
        except OSError as error:
            raise Refused(f"cannot write {place / starter.unit}: {error.strerror}") from error
        _call("daemon-reload")
    if not is_enabled(starter):
        _call("enable", starter.unit)
        is_new = True
    return is_new


def delete(starter: Starter) -> bool:
    """Forget the unit; return False if there was none. A daemon that runs is ended, its jobs are not."""
    if installed(starter) is None:
        return False
    is_reached = is_there()
    if is_reached:
        _call("disable", "--now", starter.unit)
    try:
        file_of(starter).unlink(missing_ok=True)
        # `disable` does this where systemd is reached.
        (folder() / "default.target.wants" / starter.unit).unlink(missing_ok=True)
    except OSError as error:
        raise Refused(f"cannot remove {file_of(starter)}: {error.strerror}") from error
    if is_reached:
        _call("daemon-reload")
    return True


def start(starter: Starter, *, again: bool = False) -> None:
    """Start the unit; with `again`, end its daemon first."""
    # After failures systemd would refuse for a while.
    run("systemctl", "--user", "reset-failed", starter.unit)
    _call("restart" if again else "start", starter.unit)


def is_enabled(starter: Starter) -> bool:
    """Tell whether the unit starts when the systemd of the user does."""
    return run("systemctl", "--user", "is-enabled", starter.unit).is_ok


def main_pid(starter: Starter) -> int:
    """Return the process of the unit; 0 if it has none."""
    said = run("systemctl", "--user", "show", "-p", "MainPID", "--value", starter.unit).text
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 12 else 0


def lingers() -> bool | None:
    """Tell whether the systemd of this user runs without a login; None if loginctl does not say."""
    said = run("loginctl", "show-user", str(os.getuid()), "-p", "Linger", "--value")
    return said.text == "yes" if said.is_ok else None


def _call(*words: str) -> None:
    done = run("systemctl", "--user", *words)
    if not done.is_ok:
        line = " ".join(("systemctl --user", *words))
        raise Refused(f"`{line}` failed: {done.err or f'exit {done.code}'}; jobs keep running")
