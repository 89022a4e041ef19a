"""The near side: a home with a book of machines over ssh, and its daemon."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.crowd.crowd import Member
from tests.e2e.world import eventually, kill_all, processes_of

from grassq.machines.book import Book, MachineEntry
from grassq.machines.ssh.target import SshTarget

CONNECT_S = 60.0
#: What every machine is labelled with: the daemon's own worker is not.
LABEL = "far"
_ROOT = Path(__file__).parents[2]


class Near(Member):
    """A daemon with machines over ssh."""

    def __init__(self, folder: Path, ssh: Path, *, hasty: bool = False) -> None:
        """`ssh` is the program in the place of OpenSSH's; a hasty daemon waits shortly for bad lines."""
        super().__init__(folder, "near")
        self.home.mkdir(mode=0o700)
        self._env["GRASS_SSH"] = str(ssh)
        self._env["PYTHONPATH"] = f"{_ROOT / 'src'}:{_ROOT}"
        if hasty:
            self.program = (sys.executable, "-m", "tests.machines.hasty")
        self._names: set[str] = set()

    def keep(self, name: str, host: str, *, port: int | None = None, dir: str = ".grass-ssh", cpus: int = 100) -> None:
        """Write a machine into the book; a daemon that starts later connects it."""
        target = SshTarget(host, None, port)
        entry = MachineEntry(name, target, labels=(LABEL,), capacity=f"{{cpu: {cpus}}}", dir=dir)
        Book(str(self.home)).put(entry)
        self._names.add(name)

    def begin(self) -> None:
        """Start the daemon, and wait until every machine is connected."""
        self.serve()
        self.until_connected()

    def until_connected(self, names: Iterable[str] | None = None) -> None:
        """Wait until these machines, or all, are connected."""
        wanted = self._names if names is None else set(names)
        eventually(lambda: wanted <= self.connected(), f"{len(wanted)} machines are connected", CONNECT_S)

    def connected(self) -> set[str]:
        """Return the names of the machines that are connected."""
        return {each["name"] for each in self.show()["workers"] if each["online"]}

    def show(self, *selectors: str) -> dict[str, Any]:
        """Return what `show` says."""
        with self.client() as client:
            return client.show(selectors)

    def masters(self, word: str = "") -> list[int]:
        """Return the numbers of the ssh processes whose command line has a word."""
        lines = processes_of(self.home).items()
        return [pid for pid, line in lines if "ControlMaster=yes" in line and word in line]

    def close(self) -> None:
        """End the daemon as a user would; what does not leave by itself fails the test."""
        try:
            if self.daemon is not None and self.daemon.poll() is None:
                self.daemon.terminate()
                self.daemon.wait(CONNECT_S)
            eventually(lambda: not processes_of(self.home), "processes of a stopped home leave")
        finally:
            left = processes_of(self.home)
            kill_all(left)
        assert not left, left
