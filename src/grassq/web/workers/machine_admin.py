"""The machines over ssh as the routes see them: the daemon passes the keeper of the machines in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from grassq.machines.book import AddedMachine, MachineEntry, MachineRow


class CheckStep(Protocol):
    """One step of a test, as `machines.checkup.Step` has it."""

    @property
    def name(self) -> str:
        """What is tested: login, shell, Python, space, GPUs, clock, speed."""

    @property
    def ok(self) -> bool | None:
        """Whether it works; None for a remark."""

    @property
    def words(self) -> str:
        """What was found, or what to do."""


class MachineAdmin(Protocol):
    """Adds, lists, tests and removes machines over ssh. Every method raises a GrassError in words for people."""

    async def add(self, entry: MachineEntry, *, new_key: bool) -> AddedMachine:
        """Log in there, then keep the machine and connect it as a worker; `new_key` accepts a key not seen before.

        Nothing is kept if the login fails. Refused: another worker has the name, or it is another place while jobs at
        the known one are unfinished. The same definition again is `unchanged`. A key that the user has not accepted
        yet is the answer `unknown_key`, no error.
        """

    async def remove(self, name: str, *, force: bool) -> Sequence[str]:
        """Delete what is there, forget the machine and its worker; return what is left there, a line each.

        Refused unless `force`: jobs run there, the broker does not have the end of a job, or the machine does not
        answer. NotFound: no such machine.
        """

    def list(self) -> Sequence[MachineRow]:
        """Return every machine, by name."""

    def test(self, name: str, agent: str | None) -> AsyncIterator[CheckStep]:
        """Test a machine step by step over a connection of its own; NotFound at the first step: no such machine."""

    async def free(self, name: str) -> dict[str, object]:
        """Ask a machine what it has free now. NotFound; Refused: the machine is not connected or does not answer."""

    async def retry(self, name: str, agent: str | None) -> None:
        """Connect a machine that waits for a person, or for its next try, now; NotFound: no such machine."""

    def login(self, name: str) -> Sequence[str]:
        """Return the command line that logs in there on a terminal; words after it are run there. NotFound."""

    def entry(self, name: str) -> MachineEntry:
        """Return what was told of a machine. NotFound."""
