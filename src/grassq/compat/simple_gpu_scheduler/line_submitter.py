"""Handing commands over to the daemon: once each, whatever breaks on the way."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import NamedTuple

from grassq import home as homes
from grassq.compat.simple_gpu_scheduler.command_reader import Command
from grassq.compat.simple_gpu_scheduler.messages import Messages
from grassq.compat.simple_gpu_scheduler.records import RunNote, RunRecord
from grassq.compat.simple_gpu_scheduler.signals import Signals
from grassq.core.syntax.placeholders import JOB_PLACEHOLDERS, literal
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF
from grassq.errors import BadInput, GrassError, StoreUnavailable, Unreachable
from grassq.net.client import ApiClient
from grassq.net.encoding import new_key, word_value

#: How long a daemon that does not answer, or cannot store anything now, is asked again.
PATIENCE_S = 60.0
PAUSE_S = 1.0

#: What Grass would fill in. The commands here are older than that: braces are theirs.
_OURS = JOB_PLACEHOLDERS | {SLOT.encode(), SLOTS_OF.encode()}
_PLACE = re.compile(r"commands\[([0-9]{1,9})\]: (.+)", re.DOTALL)


class SubmitResult(NamedTuple):
    """What became of some commands."""

    #: Those that are stored; their ids follow one another from the first on.
    first: int
    stored: Sequence[Command]
    #: Those the daemon does not take, each with its reason.
    refused: list[tuple[Command, str]]
    #: Those that could not be handed over, and why; in the same order.
    left: Sequence[Command] = ()
    trouble: GrassError | None = None


class LineSubmitter:
    """Submits commands to one queue, from one directory and with this environment, and keeps the note about it."""

    def __init__(
        self,
        client: ApiClient,
        queue: str,
        cwd: bytes,
        make_queue: Callable[[], None],
        messages: Messages,
        signals: Signals,
    ) -> None:
        self._client = client
        self._queue = queue
        self._cwd = cwd
        self._make_queue = make_queue
        self._messages = messages
        self._signals = signals
        self._umask = homes.umask()
        self._note = RunNote(queue, os.getpid(), int(time()))
        self._is_told = False
        self._record: RunRecord | None = None
        try:
            self._record = RunRecord(client.home, self._note)
        except OSError as error:
            self._tell_of_note(error)

    def store(self, commands: Sequence[Command]) -> SubmitResult:
        """Store the commands, in order, all that the daemon takes."""
        refused: list[tuple[Command, str]] = []
        first, trouble = 0, None
        while commands and not first and trouble is None:
            self._write(self._note._replace(handing=_typed(commands)))
            try:
                first = self._submit(commands)
            except GrassError as error:
                place = _place(error)
                if place is None or place[0] >= len(commands):
                    trouble = error
                else:
                    refused.append((commands[place[0]], place[1]))
                    commands = [*commands[: place[0]], *commands[place[0] + 1 :]]
        if trouble is not None:
            # Who did not answer may have stored them; then they stay in the note, and the next call tells.
            self._write(self._note._replace(handing=_typed(commands) if isinstance(trouble, Unreachable) else ""))
            return SubmitResult(0, (), refused, commands, trouble)
        if first:
            self._note = self._note._replace(first=self._note.first or first, last=first + len(commands) - 1)
        if self._note.handing:
            self._write(self._note._replace(handing=""))
        return SubmitResult(first, commands, refused)

    def close(self) -> None:
        """All is over: there is nothing to tell, unless nobody knows whether some commands are stored."""
        if self._record is None or self._note.handing:
            return
        try:
            self._record.remove()
        except OSError as error:
            self._tell_of_note(error)

    def _write(self, note: RunNote) -> None:
        self._note = note
        if self._record is None:
            return
        try:
            self._record.write(note)
        except OSError as error:
            self._tell_of_note(error)

    def _tell_of_note(self, error: OSError) -> None:
        """The note is a help, and nothing depends on it."""
        if not self._is_told:
            self._is_told = True
            then = "if it is killed, the next one may not tell what became of its commands"
            self._messages.say(f"the note about this call cannot be kept ({error.strerror}); {then}")

    def _submit(self, commands: Sequence[Command]) -> int:
        key, deadline = new_key(), 0.0
        texts = [word_value(literal(command.text, _OURS)) for command in commands]
        env = homes.environment()
        while True:
            try:
                answer = self._client.submit_many(
                    texts, {"queue": self._queue}, cwd=self._cwd, env=env, umask=self._umask, key=key
                )
                break
            except GrassError as error:
                if self._is_lasting(error) or self._signals.first or (deadline and monotonic() > deadline):
                    raise
                if not deadline:
                    deadline = monotonic() + PATIENCE_S
                    self._messages.say(f"{error}; trying again")
            select.select([self._signals], [], [], PAUSE_S)
        if answer.get("warnings"):
            try:
                self._make_queue()  # somebody has deleted it, and the jobs would wait for it for ever
            except GrassError as error:
                self._messages.say(str(error))  # the subscription misses the queue too, and makes it
        return int(answer["first"])

    def _is_lasting(self, error: GrassError) -> bool:
        """Whether asking again would be answered the same."""
        if isinstance(error, Unreachable | StoreUnavailable):
            return False
        if _place(error) is not None:
            return True
        try:
            # What keeps a daemon from starting comes as the same kinds of error, and can be put right.
            self._client.info()
        except GrassError:
            return False
        return True


def _place(error: GrassError) -> tuple[int, str] | None:
    """Which of the commands is wrong, and why, if it is about one of them."""
    place = _PLACE.fullmatch(str(error)) if isinstance(error, BadInput) else None
    return None if place is None else (int(place[1]), place[2])


def _typed(commands: Sequence[Command]) -> str:
    return b"".join(command.typed + b"\n" for command in commands).decode("utf-8", "surrogateescape")
