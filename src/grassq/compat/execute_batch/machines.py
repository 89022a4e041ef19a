"""The machines of a batch: each becomes a worker of the local daemon, and is asked what it has free."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic, sleep
from typing import Any, NamedTuple

from grassq import home as homes
from grassq.cli.inputs import machine_file
from grassq.cli.inputs.machine_file import MachineFile
from grassq.compat.execute_batch.slots import FreeResources, HeldSlot, Needs, beside, read_free, slots_of
from grassq.errors import BadInput, GrassError, Unreachable
from grassq.net.client import ApiClient
from grassq.net.encoding import percent

#: How long a machine that was added may take to connect as a worker, and how often the daemon is asked.
CONNECT_S = 60.0
LOOK_S = 0.05
#: How long a daemon that has just started may take to know where ssh finds its machines.
ADDRESSES_S = 10.0
#: How long a machine that waited for a person may take to try again.
STALE_S = 10.0
#: Machines of one batch that are asked at the same time.
AT_ONCE = 16

_ODD = re.compile(r"[^A-Za-z0-9.-]+")
_OWN_NAME = re.compile(r"m-.+-[0-9a-f]{8}")


class MachineUnusable(GrassError):
    """A machine cannot be reached, or has no room for a job."""


class NamedMachine(NamedTuple):
    """A machine as it was typed, and its file."""

    word: str
    file: MachineFile

    @property
    def worker(self) -> str:
        """The name of the machine as a worker: the same for every file that says the same."""
        said = "\0".join([self.file.user, self.file.host, str(self.file.port), self.file.key])
        host = _ODD.sub("-", self.file.host).strip("-.")[:40]
        return f"m-{host or 'host'}-{sha256(said.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"

    @property
    def address(self) -> str:
        """The machine as user@host:port."""
        host = self.file.host.lower()
        return f"{self.file.user}@{f'[{host}]' if ':' in host else host}:{self.file.port}"


class BatchMachine(NamedTuple):
    """A machine that takes part in a batch."""

    word: str
    #: The name of its worker.
    worker: str
    #: The GPU of each slot; None for a slot without a GPU.
    gpus: tuple[int | None, ...]


class MachineAnswer(NamedTuple):
    """What a machine has free, or why it cannot be used."""

    machine: NamedMachine
    #: The name of its worker, and other names of the same machine.
    names: tuple[str, ...]
    free: FreeResources | None
    trouble: str = ""


def named_machines(words: Sequence[str]) -> list[NamedMachine]:
    """Return the machines of these words; raise BadInput for a file that is missing or wrong, or a machine twice."""
    machines = [NamedMachine(word, machine_file.read(machine_file.find(word))) for word in words]
    seen: dict[tuple[str, int], str] = {}
    for machine in machines:
        where = (machine.file.host, machine.file.port)
        if where in seen:
            raise BadInput(f"{seen[where]} and {machine.word} are the same machine; name it once")
        seen[where] = machine.word
    return machines


def ask_all(home: str, machines: Sequence[NamedMachine], *, accepts_key: bool) -> list[MachineAnswer]:
    """Connect the machines and return what each has free, in the order given; raise Unreachable without a daemon."""
    answers: dict[str, MachineAnswer] = {}
    failures: list[GrassError] = []
    left = list(reversed(machines))

    def work() -> None:
        while left and not failures:
            try:
                machine = left.pop()
            except IndexError:
                return
            try:
                answers[machine.word] = _ask(home, machine, accepts_key)
            except GrassError as error:
                failures.append(error)

    # Threads that the end of the process does not wait for: ctrl-C leaves at once.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(AT_ONCE, len(machines)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [answers[machine.word] for machine in machines]


def _ask(home: str, machine: NamedMachine, accepts_key: bool) -> MachineAnswer:
    with ApiClient(home) as client:
        try:
            with _about(client, machine):
                names = _connect(client, machine, accepts_key=accepts_key)
                return MachineAnswer(machine, names, read_free(client.get(f"machines/{percent(names[0])}/free")))
        except MachineUnusable as error:
            return MachineAnswer(machine, (), None, str(error))


@contextmanager
def _about(client: ApiClient, machine: NamedMachine) -> Iterator[None]:
    """Raise MachineUnusable for every error about a machine; an error about the daemon stays what it is."""
    try:
        yield
    except GrassError as error:
        if isinstance(error, Unreachable):
            client.info()  # raises if it is the daemon that does not answer
        raise MachineUnusable(f"{machine.word} cannot be used: {error}") from error


def connect(client: ApiClient, machine: NamedMachine, *, accepts_key: bool) -> str:
    """Make a machine a worker of the daemon, unless it is one, and wait until it is connected; return its name.

    A machine that the user has added is used as it is. Raise MachineUnusable if the machine cannot be used.
    """
    with _about(client, machine):
        return _connect(client, machine, accepts_key=accepts_key)[0]


def _rows(client: ApiClient, machine: NamedMachine) -> list[dict[str, Any]]:
    """Return what the daemon says of a machine under each of its names, first of all the name that the user gave it."""
    began = monotonic()
    while True:
        rows = client.get("machines")["machines"]
        found = [row for row in rows if machine.address in (row["host"], *(row.get("addresses") or ()))]
        is_known = all(row.get("addresses", ()) is not None for row in rows)
        if is_known or monotonic() > began + ADDRESSES_S:
            return sorted(found, key=lambda row: _rank(str(row["name"]), machine))
        sleep(LOOK_S)


def _rank(name: str, machine: NamedMachine) -> tuple[bool, bool, str]:
    return _OWN_NAME.fullmatch(name) is not None, name != machine.worker, name


def _connect(client: ApiClient, machine: NamedMachine, *, accepts_key: bool) -> tuple[str, ...]:
    file = machine.file
    host = f"[{file.host}]" if ":" in file.host else file.host
    rows = _rows(client, machine)
    row = rows[0] if rows else None
    name = machine.worker if row is None else str(row["name"])
    agent = homes.ssh_agent()
    if row is not None and name != machine.worker:
        client.change("machines/retry", name=name, agent=agent)
        _await_connection(client, name)
    elif row is None or row["state"] != "connected":
        answer = client.change(
            "machines/add",
            name=name,
            target=f"{file.user}@{host}",
            port=file.port,
            identity=file.key,
            # Nothing of the machine is for other jobs: a batch names what its own jobs take.
            capacity="{}",
            agent=agent,
            accept_key=accepts_key,
        )
        if answer.get("status") == "unknown_key":
            known_by = f"log in once with ssh -p {file.port} {file.user}@{host}, or use --accept-key"
            raise MachineUnusable(f"its host key is not known; {known_by}")
        _await_connection(client, name)
        # Queue `default` is on every machine. Without this, a job with --gpu=1 of another queue could get here.
        words = ["default", "--worker", name, "--capacity", '{"gpu": 0}']
        client.create_queue([word.encode() for word in words], cwd=b"/")
    return tuple(dict.fromkeys([name, *(str(row["name"]) for row in rows)]))


def _await_connection(client: ApiClient, name: str) -> None:
    """Wait until a machine is connected; raise MachineUnusable if it is not, also after a new try."""
    began = monotonic()
    while True:
        row = next((row for row in client.get("machines")["machines"] if row["name"] == name), None)
        # What an earlier try said counts no more once a new try has been made.
        patience_s = STALE_S if row is not None and row["state"] == "needs you" else CONNECT_S
        if row is None or monotonic() > began + patience_s:
            raise MachineUnusable("it was removed" if row is None else str(row["why"]) or "it does not answer")
        if row["state"] == "connected" and any(
            worker["name"] == name and worker["online"] for worker in client.show()["workers"]
        ):
            return
        sleep(LOOK_S)


def usable(answers: Sequence[MachineAnswer], *, skips: bool, say: Callable[[str], None]) -> list[MachineAnswer]:
    """Return the machines that answered, each once; unless `skips`, raise MachineUnusable if one did not."""
    troubles = [each.trouble for each in answers if each.free is None]
    found = [each for each in answers if each.free is not None]
    if troubles and (not skips or not found):
        hint = "" if skips else "; --skip-unreachable goes on without it"
        raise MachineUnusable("; ".join(troubles) + hint)
    words: dict[str, str] = {}
    for machine, names, _, _ in found:
        if names[0] in words:
            raise BadInput(f"{words[names[0]]} and {machine.word} are the same machine, {names[0]}; name it once")
        words[names[0]] = machine.word
    for trouble in troubles:
        say(f"{trouble}; going on without it")
    return found


def machine_slots(
    answers: Sequence[MachineAnswer],
    needs: Needs,
    held: Mapping[str, Sequence[HeldSlot]],
    say: Callable[[str], None],
) -> list[BatchMachine]:
    """Return the slots of each machine beside those that other batches hold; MachineUnusable if there are none."""
    found: list[BatchMachine] = []
    empty: list[str] = []
    for machine, names, free, _ in answers:
        assert free is not None
        slots = slots_of(beside(free, [slot for name in names for slot in held.get(name, ())]), needs)
        found.append(BatchMachine(machine.word, names[0], slots.gpus))
        if not slots.gpus:
            empty.append(f"{machine.word} has no room for a job; {slots.limit}")
    if len(empty) == len(found):
        raise MachineUnusable("; ".join(empty))
    for line in empty:
        say(line)
    return found
