"""What is tried again when commands are handed over, and what is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from grassq.compat.messages import Messages
from grassq.compat.signals import Signals
from grassq.compat.simple_gpu_scheduler import line_submitter
from grassq.compat.simple_gpu_scheduler.command_reader import Command
from grassq.compat.simple_gpu_scheduler.killed_runs import FOLDER
from grassq.compat.simple_gpu_scheduler.line_submitter import LineSubmitter
from grassq.errors import BadInput, GrassError, Refused, StoreUnavailable, Unreachable
from grassq.net.client import ApiClient, read_answer
from grassq.net.http import Response

COMMANDS = [Command(text, text, text) for text in (b"echo a", b"echo b")]
STOPPED = BadInput("a setting is wrong")


class World:
    """A daemon that answers as it is told, a user who may press ctrl-C, and what is said."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)
        self.answers: list[GrassError | int] = []
        self.keys: list[str] = []
        self.said: list[str] = []
        self.first = 0
        self.is_there = True
        self.interrupts_at: GrassError | None = None
        self._reading, self._writing = os.pipe()

    def fileno(self) -> int:
        return self._reading

    def say(self, message: str) -> None:
        self.said.append(message)

    def submit_many(self, *_: object, key: str, **__: object) -> dict[str, Any]:
        self.keys.append(key)
        answer = self.answers.pop(0)
        if isinstance(answer, GrassError):
            raise answer
        return {"first": answer}

    def info(self) -> None:
        if not self.is_there:
            raise STOPPED

    def interrupt(self) -> None:
        self.first = 2
        os.write(self._writing, b"x")

    def submitter(self) -> LineSubmitter:
        client, messages, signals = cast(ApiClient, self), cast(Messages, self), cast(Signals, self)
        return LineSubmitter(client, "sgs-0", b"/", lambda: None, messages, signals)

    def files(self) -> list[tuple[int, int, bytes]]:
        """The file about the call: its first and last job, and its lines in flight."""
        found = []
        for path in (Path(self.home) / FOLDER).iterdir():
            header, _, lines = path.read_bytes().partition(b"\n")
            first, last, size = map(int, header.split()[2:])
            found.append((first, last, lines[:size]))
        return found

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("error", [Unreachable("away"), StoreUnavailable("the disk is full")], ids=repr)
def test_trouble_that_passes_is_tried_again_with_the_same_key(
    world: World, error: GrassError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_submitter, "PAUSE_S", 0.0)
    world.answers = [error, error, 7]
    result = world.submitter().store(COMMANDS)
    assert (result.first, result.stored, result.trouble) == (7, COMMANDS, None)
    assert len(set(world.keys)) == 1 and world.said == [f"{error}; trying again"]
    assert world.files() == [(0, 8, b"")]


def test_a_daemon_that_cannot_start_is_trouble_that_passes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_submitter, "PAUSE_S", 0.0)
    world.is_there = False
    world.answers = [STOPPED, 7]
    assert world.submitter().store(COMMANDS).first == 7


@pytest.mark.parametrize("error", [BadInput("there is no directory"), Refused("this can never run")], ids=repr)
def test_what_would_be_answered_the_same_is_not_tried_again(world: World, error: GrassError) -> None:
    world.answers = [error]
    submitter = world.submitter()
    result = submitter.store(COMMANDS)
    assert (result.stored, result.left, result.trouble) == ((), COMMANDS, error)
    assert world.files() == [(0, 0, b"")]
    submitter.close()
    assert world.files() == []


def test_one_that_is_wrong_is_taken_out(world: World) -> None:
    world.answers = [BadInput("commands[0]: it is empty"), 7]
    result = world.submitter().store(COMMANDS)
    assert (result.first, result.stored) == (7, COMMANDS[1:])
    assert result.refused == [(COMMANDS[0], "it is empty")]
    assert len(set(world.keys)) == 2


def test_asked_to_stop_it_does_not_try_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not answer may have stored them: then the file stays."""
    monkeypatch.setattr(line_submitter, "PAUSE_S", 60.0)
    error = Unreachable("away")
    world.answers = [error, error]
    monkeypatch.setattr(world, "say", lambda _: world.interrupt())
    submitter = world.submitter()
    result = submitter.store(COMMANDS)
    assert (result.left, result.trouble, world.answers) == (COMMANDS, error, [])
    submitter.close()
    assert world.files() == [(0, 0, b"echo a\necho b\n")]


def test_its_patience_has_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_submitter, "PAUSE_S", 0.0)
    monkeypatch.setattr(line_submitter, "PATIENCE_S", 0.0)
    world.answers = [StoreUnavailable("full")] * 1000
    result = world.submitter().store(COMMANDS)
    assert isinstance(result.trouble, StoreUnavailable) and result.left == COMMANDS


def test_a_store_that_takes_nothing_now_is_told_apart_from_a_refusal() -> None:
    body = b'{"error": {"exit": 5, "message": "the disk is full"}}'
    with pytest.raises(StoreUnavailable, match="disk"):
        read_answer(Response(503, {}, body))
    with pytest.raises(Refused) as refused:
        read_answer(Response(409, {}, body))
    assert not isinstance(refused.value, StoreUnavailable)
