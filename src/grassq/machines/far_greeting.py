"""What a machine says of itself when its far side is opened, and why it cannot be used."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from grassq.core.job_options import Pairs
from grassq.core.printable import printable
from grassq.errors import Refused
from grassq.machines.far_stream import Sections
from grassq.machines.transport import LinkLost
from grassq.run import exit_record

#: Characters of a word that a machine says.
WORD_MAX = 100
#: The variables of an ssh session and of its shell: they say nothing to a job.
SESSION = (b"SSH_", b"XDG_SESSION_")
SHELL = frozenset(b"_ SHLVL PWD OLDPWD".split())

#: The numbers of a greeting, of a bounded number of digits.
_NUMBERS = {"uptime_ms": r"[0-9]{1,18}", "clock": r"[0-9]{1,18}(\.[0-9]{1,18})?", "umask": r"[0-7]{1,18}"}


class FarUnusable(Refused):
    """A machine answers, but cannot run jobs; the message says why."""


class FarGreeting(Struct, frozen=True):
    """What a machine says of itself at the beginning."""

    boot: str
    uptime_s: float
    #: The time of day there.
    clock: float
    #: The absolute far home of this store, and the home of the user.
    home: bytes
    user_home: bytes
    env: Pairs
    umask: int
    python: str | None
    shell: str
    #: The name of the computer; and of the one that led before, if that was another one with the same home directory.
    computer: str
    other: str | None


def read_greeting(answer: Sections) -> FarGreeting:
    """Return what an answer to `hello` says; LinkLost if that is not enough, FarUnusable if tools are missing there."""
    facts = dict(
        line.split(" ", 1) for line in answer.get("facts", b"").decode("ascii", "replace").split("\n") if " " in line
    )
    missing = answer.get("missing", b"").decode("ascii", "replace").split()
    if missing:
        raise FarUnusable(f"the machine lacks {', '.join(missing)}: they are needed to run jobs")
    try:
        for name, form in _NUMBERS.items():
            if not re.fullmatch(form, facts[name]):
                raise ValueError(f"its {name} is not a number")
        clock = float(facts["clock"])
        if not (clock <= exit_record.TIME_MAX and len(facts["boot"]) <= WORD_MAX):
            raise ValueError("it says no time or boot")
        return FarGreeting(
            boot=facts["boot"],
            uptime_s=int(facts["uptime_ms"]) / 1000,
            clock=clock,
            home=answer["home"],
            user_home=answer["user_home"],
            env=_environment(answer["env"]),
            umask=int(facts["umask"], 8) & 0o777,
            python=answer["python"].decode("utf-8", "replace") or None,
            shell=answer["shell"].decode("utf-8", "replace"),
            computer=_name(facts.get("name", "")),
            other=_other(answer.get("computer", b""), facts),
        )
    except (KeyError, ValueError) as error:
        raise LinkLost(0, f"the greeting of the machine is incomplete: {error}") from None


def _other(note: bytes, facts: Mapping[str, str]) -> str | None:
    """Return the name in the note of the computer that led last; None if it is the same computer.

    A reboot keeps the name, and a new name keeps the boot. The id in /etc/machine-id would tell less: the nodes of a
    cluster have that of their image, or a new one after each boot.
    """
    name, _, boot = note.decode("ascii", "replace").rpartition(" ")
    return None if not name or name == facts.get("name") or boot == facts["boot"] else _name(name)


def _name(word: str) -> str:
    return printable(word, WORD_MAX)


def several_computers(before: str, now: str) -> FarUnusable:
    """Return the error that a name leads to another computer than before."""
    return FarUnusable(
        f"this name leads to several computers with one home directory, {before} and {now}: name one of them in"
        " ~/.ssh/config; if it is one computer, with another name since its reboot, `grass machine remove --force` it"
        " and add it again"
    )


def _environment(data: bytes) -> Pairs:
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return tuple(
        (name, value)
        for name, equals, value in pairs
        if name and equals and name not in SHELL and not name.startswith(SESSION)
    )
