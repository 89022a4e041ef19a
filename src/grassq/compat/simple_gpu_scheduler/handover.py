"""Handing commands over to the daemon: once each, whatever breaks on the way."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from time import monotonic, sleep, time
from typing import NamedTuple

from grassq import home as homes
from grassq.compat.simple_gpu_scheduler.lines import Command
from grassq.compat.simple_gpu_scheduler.records import Note, Record
from grassq.compat.simple_gpu_scheduler.voice import Voice
from grassq.core.slot_words import SLOT, SLOTS_OF
from grassq.core.template import JOB_PLACEHOLDERS, literal
from grassq.errors import BadInput, GrassError
from grassq.net.client import Client
from grassq.net.wire import new_key, word_value

#: How long a daemon that does not answer, or cannot store anything now, is asked again.
PATIENCE_S = 60.0
PAUSE_S = 1.0

#: What Grass would fill in. The commands here are older than that: braces are theirs.
_OURS = JOB_PLACEHOLDERS | {SLOT.encode(), SLOTS_OF.encode()}
_PLACE = re.compile(r"commands\[([0-9]{1,9})\]: (.+)", re.DOTALL)


class Stored(NamedTuple):
    """Commands that have ids now, one after the other from the first on."""

    first: int
    commands: Sequence[Command]


class Handover:
    """Submits commands to one queue, from this directory and with this environment, and keeps the note about it."""

    def __init__(self, client: Client, queue: str, make_queue: Callable[[], None], voice: Voice) -> None:
        self._client = client
        self._queue = queue
        self._make_queue = make_queue
        self._voice = voice
        self._cwd = os.getcwdb()  # noqa: PTH109 - bytes
        self._umask = _umask()
        self._note = Note(queue, os.getpid(), int(time()))
        self._record = Record(client.home, self._note)

    def store(self, commands: Sequence[Command]) -> tuple[list[Stored], list[tuple[Command, str]]]:
        """Store the commands, in order; and which of them the daemon does not take, with its reason."""
        stored: list[Stored] = []
        refused: list[tuple[Command, str]] = []
        if not commands:
            return stored, refused
        while commands:
            self._record.write(self._note._replace(handing=_typed(commands)))
            try:
                first = self._submit(commands)
            except BadInput as error:
                place = _PLACE.fullmatch(str(error))
                if place is None or int(place[1]) >= len(commands):
                    raise
                index = int(place[1])
                refused.append((commands[index], place[2]))
                commands = [*commands[:index], *commands[index + 1 :]]
            else:
                stored.append(Stored(first, commands))
                self._note = self._note._replace(first=self._note.first or first, last=first + len(commands) - 1)
                commands = []
        self._record.write(self._note)
        return stored, refused

    def close(self) -> None:
        """All is over: there is nothing to tell."""
        self._record.remove()

    def _submit(self, commands: Sequence[Command]) -> int:
        key, deadline = new_key(), 0.0
        texts = [word_value(literal(command.text, _OURS)) for command in commands]
        env = homes.environment()
        while True:
            try:
                answer = self._client.submit_many(
                    texts, {"queue": self._queue}, cwd=self._cwd, env=env, umask=self._umask, key=key
                )
                if answer.get("warnings"):
                    self._make_queue()  # somebody has deleted it, and the jobs would wait for it for ever
                return int(answer["first"])
            except GrassError as error:
                # What is wrong with a command will not change; a daemon that cannot start or a full disk may.
                if _PLACE.fullmatch(str(error)) or (deadline and monotonic() > deadline):
                    raise
                if not deadline:
                    deadline = monotonic() + PATIENCE_S
                    self._voice.say(f"{error}; trying again")
            sleep(PAUSE_S)


def _typed(commands: Sequence[Command]) -> str:
    return b"".join(command.typed + b"\n" for command in commands).decode("utf-8", "surrogateescape")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
