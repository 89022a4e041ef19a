"""Submits each command to the daemon exactly once, also across restarts of the daemon."""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from grassq.compat.messages import Messages
from grassq.compat.signals import Signals
from grassq.compat.simple_gpu_scheduler.command_reader import Command
from grassq.compat.simple_gpu_scheduler.killed_runs import RunFile
from grassq.core.syntax.placeholders import JOB_PLACEHOLDERS, literal
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF
from grassq.errors import BadInput, GrassError, StoreUnavailable, Unreachable
from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.encoding import new_key, word_value

#: Seconds for which a daemon is asked again that does not answer or cannot store anything now.
PATIENCE_S = 60.0
PAUSE_S = 1.0

#: Placeholders that Grass would fill in. Commands of simple_gpu_scheduler have none, so their braces are escaped.
_PLACEHOLDERS = JOB_PLACEHOLDERS | {SLOT.encode(), SLOTS_OF.encode()}
_WRONG = re.compile(r"commands\[([0-9]{1,9})\]: (.+)", re.DOTALL)


class SubmitResult(NamedTuple):
    """The result of submitting some commands."""

    #: The stored commands; their job ids are consecutive and start at `first`.
    first: int
    stored: Sequence[Command]
    #: The commands that the daemon refuses, each with its reason.
    refused: list[tuple[Command, str]]
    #: The commands that could not be submitted, in input order, and the error.
    left: Sequence[Command] = ()
    trouble: GrassError | None = None


class LineSubmitter:
    """Submits commands to one queue, with this directory and environment."""

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
        self._run_file = RunFile(client.home, queue, messages.say)

    def store(self, commands: Sequence[Command]) -> SubmitResult:
        """Store the commands in order, without those that the daemon refuses."""
        refused: list[tuple[Command, str]] = []
        first, trouble = 0, None
        while commands and not first and trouble is None:
            self._run_file.put_in_flight(_typed(commands))
            try:
                first = self._submit(commands)
            except GrassError as error:
                wrong = _wrong_command(error)
                if wrong is None or wrong[0] >= len(commands):
                    trouble = error
                else:
                    refused.append((commands[wrong[0]], wrong[1]))
                    commands = [*commands[: wrong[0]], *commands[wrong[0] + 1 :]]
        if trouble is not None:
            # A daemon that did not answer may have stored the commands: they stay in flight for the next call's report.
            if not isinstance(trouble, Unreachable):
                self._run_file.confirm()
            return SubmitResult(0, (), refused, commands, trouble)
        if first or refused:
            self._run_file.confirm(first + len(commands) - 1 if first else 0)
        return SubmitResult(first, commands, refused)

    def close(self) -> None:
        """Remove the file about this call; it stays if commands may or may not be stored."""
        self._run_file.close()

    def _submit(self, commands: Sequence[Command]) -> int:
        key, deadline = new_key(), 0.0
        sender = Sender.to(None, self._cwd)
        texts = [word_value(literal(command.text, _PLACEHOLDERS)) for command in commands]
        while True:
            try:
                answer = self._client.submit_many(texts, {"queue": self._queue}, sender, key=key)
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
                self._make_queue()  # the queue was deleted, and the jobs would wait for it forever
            except GrassError as error:
                self._messages.say(str(error))  # the next subscription finds no queue either, and creates it
        return int(answer["first"])

    def _is_lasting(self, error: GrassError) -> bool:
        """Tell whether the daemon would give the same answer again."""
        if isinstance(error, Unreachable | StoreUnavailable):
            return False
        if _wrong_command(error) is not None:
            return True
        try:
            # The same error classes also report why a daemon cannot start, and a user can fix the cause.
            self._client.info()
        except GrassError:
            return False
        return True


def _wrong_command(error: GrassError) -> tuple[int, str] | None:
    """Return the index of the invalid command and the reason; None if the error is about no command."""
    wrong = _WRONG.fullmatch(str(error)) if isinstance(error, BadInput) else None
    return None if wrong is None else (int(wrong[1]), wrong[2])


def _typed(commands: Sequence[Command]) -> bytes:
    return b"".join(command.typed + b"\n" for command in commands)
