"""The book of a home's machines: what `grass machine add` was told, in `machines.json`."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq import atomic_files
from grassq.core.names import check_mark, shown
from grassq.core.worker_checks import LABELS_MAX
from grassq.errors import BadInput, Refused
from grassq.machines.ssh.target import SshTarget

FILE_NAME = "machines.json"
FILE_MAX = 4 << 20
#: Machines of one home; another one is refused.
MACHINES_MAX = 1000
#: The folder in the home directory there that holds everything of Grass.
FOLDER = ".grass-ssh"
#: The longest path, and the longest text of a capacity, in characters.
PATH_MAX = 1000
CAPACITY_MAX = 4000

#: The folder is a word of an ssh command line, and every login shell has to leave it as it is.
_FOLDER = re.compile(r"/?[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+][A-Za-z0-9._+-]*)*")

Status = Literal["added", "changed", "unchanged"]


class MachineEntry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One machine: its name as a worker, the way to it, and what it offers."""

    name: str
    target: SshTarget
    labels: tuple[str, ...] = ()
    #: What the machine offers, as typed (JSON5); None to detect it.
    capacity: str | None = None
    #: The folder there, below the home directory unless it is absolute.
    dir: str = FOLDER
    #: The socket of the ssh agent of the user that added the machine.
    agent: str | None = None
    #: Whether a Python there may be used; without it, jobs run under sh.
    python: bool = True

    @property
    def place(self) -> tuple[str, str | None, int | None, str]:
        """Where the run dirs of its jobs are, as typed: host, user, port and folder."""
        return self.target.host, self.target.user, self.target.port, self.dir

    def far_store(self, store_id: str) -> str:
        """Return the name of the far home of a store there: machines may share a home directory, over NFS."""
        return f"{store_id}-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"


State = Literal["connected", "connecting", "needs you"]


class MachineRow(Struct, frozen=True):
    """A machine as `grass machine list` shows it. Words of the far side are made printable by the routes."""

    name: str
    #: As typed: `user@host:port`, or an alias of `~/.ssh/config`.
    host: str
    state: State
    #: Why the machine is not connected; "" if it is.
    why: str = ""
    boot: str | None = None
    #: What supervises jobs there: the path of a Python, or `sh`; None if the machine was never connected.
    runs: str | None = None
    #: Jobs that run there; None while that is not known.
    jobs: int | None = None
    labels: tuple[str, ...] = ()
    #: What the machine offers, such as `cpu 16, mem 65536, gpu 2`; "" while that is not known.
    offers: str = ""
    #: Where the user's ssh finds the machine, as `user@host:port`; None while that is not known yet.
    addresses: tuple[str, ...] | None = None


class AddedMachine(Struct, frozen=True):
    """What came of adding a machine."""

    status: Literal["added", "changed", "unchanged", "unknown_key"]
    #: What was found there, a line each; with `unknown_key` what ssh says about the key.
    found: tuple[str, ...] = ()
    #: With `unknown_key`: the command line of ssh that asks a person about the key on a terminal, and runs nothing.
    ask: tuple[str, ...] = ()


def check(entry: MachineEntry) -> MachineEntry:
    """Return the entry with its labels sorted; raise BadInput if a word of it cannot be used."""
    check_mark(entry.name, "machine name")
    if "/" in entry.name:
        raise BadInput(f"{shown(entry.name)} cannot be a machine name: files are named after it, so it has no '/'")
    labels = tuple(sorted({check_mark(label, "label") for label in entry.labels}))
    if len(labels) > LABELS_MAX:
        raise BadInput(f"a machine has at most {LABELS_MAX} labels, not {len(labels)}")
    if entry.capacity is not None and len(entry.capacity) > CAPACITY_MAX:
        raise BadInput(f"the capacity of a machine has at most {CAPACITY_MAX:,} characters")
    _check_folder(entry.dir)
    _check_path(entry.agent, "the socket of the ssh agent")
    _check_path(entry.target.key, "the key file")
    return replace(entry, labels=labels)


def _check_folder(folder: str) -> None:
    if len(folder) > PATH_MAX or _FOLDER.fullmatch(folder) is None or ".." in folder.split("/"):
        raise BadInput(
            f"{shown(folder)} cannot be the directory of a machine: letters, digits and '._+-', no '..',"
            " below the home directory there or absolute"
        )


def _check_path(path: str | None, what: str) -> None:
    if path is not None and (not path.startswith("/") or len(path) > PATH_MAX or not path.isprintable()):
        raise BadInput(f"{what} is an absolute path of at most {PATH_MAX:,} printable characters, not {shown(path)}")


class Book:
    """The machines of one home. Threads may share it; one daemon at a time serves a home."""

    def __init__(self, home: str) -> None:
        """Read the file; raise Refused in a sentence if it is damaged."""
        self._home = home
        self._lock = threading.Lock()
        self._entries = _load(home)

    def all(self) -> tuple[MachineEntry, ...]:
        """Return every machine, sorted by name."""
        return tuple(self._entries.values())

    def get(self, name: str) -> MachineEntry | None:
        """Return a machine; None if no machine has this name."""
        return self._entries.get(name)

    def put(self, entry: MachineEntry) -> Status:
        """Add a machine, or change the one of this name, and write the file; another agent alone is no change."""
        entry = check(entry)
        with self._lock:
            known = self._entries.get(entry.name)
            if known is None and len(self._entries) >= MACHINES_MAX:
                raise Refused(f"there are {MACHINES_MAX:,} machines already; `grass machine remove NAME` first")
            self._write([*(each for each in self._entries.values() if each.name != entry.name), entry])
        if known is None:
            return "added"
        return "unchanged" if replace(known, agent=entry.agent) == entry else "changed"

    def remove(self, name: str) -> bool:
        """Forget a machine and write the file; return False if no machine has this name."""
        with self._lock:
            if name not in self._entries:
                return False
            self._write(each for each in self._entries.values() if each.name != name)
        return True

    def _write(self, entries: Iterable[MachineEntry]) -> None:
        ordered = sorted(entries, key=lambda each: each.name)
        content = msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n"
        if len(content) > FILE_MAX:
            raise Refused(f"the machines would need more than {FILE_MAX >> 20} MiB in {FILE_NAME}; remove some first")
        try:
            atomic_files.write_changed(self._home, FILE_NAME, content)
        except OSError as error:
            raise Refused(f"{self._home}/{FILE_NAME} cannot be written: {error.strerror}") from error
        # After the write: what is not on the disk is not said to be there. Readers see the old or the new book.
        self._entries = {each.name: each for each in ordered}


def _load(home: str) -> dict[str, MachineEntry]:
    path = f"{home}/{FILE_NAME}"
    try:
        data = atomic_files.read(path, FILE_MAX + 1)
        if data is None:
            return {}
        if len(data) > FILE_MAX:
            raise BadInput(f"it is larger than {FILE_MAX >> 20} MiB")
        entries = [check(each) for each in msgspec.json.decode(data, type=list[MachineEntry])]
        if len(entries) > MACHINES_MAX:
            raise BadInput(f"it has {len(entries):,} machines; at most {MACHINES_MAX:,} are possible")
        found = {each.name: each for each in entries}
        if len(found) < len(entries):
            raise BadInput("it names a machine twice")
    except (msgspec.MsgspecError, OSError, BadInput) as error:
        raise Refused(
            f"{path} cannot be read: {error}; repair it, or move it away and add the machines again"
        ) from error
    return found
