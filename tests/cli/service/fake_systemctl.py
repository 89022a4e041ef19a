"""A stand-in for systemctl: what systemd does with a unit of a user, in as little as it takes.

fake_systemctl.py STATE --user VERB... : STATE is a folder with the pids of the units, and every call so far.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path


def read(word: str) -> str:
    """A word in quotes as systemd reads it."""
    return re.sub(r"\\(.)", r"\1", word).replace("%%", "%")


class Unit:
    """One unit of a user."""

    def __init__(self, state: Path, name: str) -> None:
        config = os.environ.get("XDG_CONFIG_HOME") or os.environ["HOME"] + "/.config"
        self._file = Path(config) / "systemd" / "user" / name
        self.link = self._file.parent / "default.target.wants" / name
        self._pid_file = state / name
        self._journal = state / "journal"

    @property
    def pid(self) -> int:
        """Its process; 0 if it has none."""
        try:
            pid = int(self._pid_file.read_text())
            return 0 if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX" else pid
        except (OSError, ValueError):
            return 0

    def enable(self) -> None:
        self.link.parent.mkdir(parents=True, exist_ok=True)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(self._file)

    def stop(self) -> None:
        """End its process only, as KillMode=process says."""
        if pid := self.pid:
            descriptor = os.pidfd_open(pid)
            os.kill(pid, signal.SIGTERM)
            select.select([descriptor], [], [])

    def start(self) -> None:
        if self.pid:
            return
        text = self._file.read_text()
        assert "KillMode=process" in text
        [command] = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        [(program, words)] = re.findall(r'^"((?:[^"\\]|\\.)*)"(.*)$', command)
        pairs = [read(pair).split("=", 1) for pair in re.findall('^Environment="(.*)"$', text, re.MULTILINE)]
        # The environment of systemd, not that of the caller.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRASS", "PYTHON"))}
        with self._journal.open("ab") as journal:
            process = subprocess.Popen(
                [read(program), *words.split()],
                cwd="/",
                env={**kept, **dict(pairs)},
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        self._pid_file.write_text(str(process.pid))


def main() -> int:
    state, user, verb, *words = Path(sys.argv[1]), *sys.argv[2:]
    with (state / "calls").open("a") as calls:
        calls.write(" ".join([verb, *words]) + "\n")
    assert user == "--user"
    if (state / "gone").exists():
        sys.stderr.write("Failed to connect to bus: No medium found\n")
        return 1
    unit = Unit(state, words[-1] if words else "")
    if verb == "enable":
        unit.enable()
    elif verb == "is-enabled":
        return 0 if unit.link.is_symlink() else 1
    elif verb == "disable":
        if "--now" in words:
            unit.stop()
        unit.link.unlink(missing_ok=True)
    elif verb == "show":
        sys.stdout.write(f"{unit.pid}\n")
    elif verb in ("start", "restart"):
        if verb == "restart":
            unit.stop()
        try:
            unit.start()
        except OSError as error:
            sys.stderr.write(f"Job for the unit failed because of {error.strerror}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
