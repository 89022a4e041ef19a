"""A command sends its environment only to a daemon of its own user, in a home that nobody else can write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli import calls

from grassq import home as homes

Grass = Callable[..., calls.Done]

NOBODY = 65534
# Listens in a home, writes what it is sent, and answers nothing.
LISTENER = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as ours:
    ours.bind(sys.argv[1])
    os.setuid(int(sys.argv[2]))
    ours.listen(8)
    print("ready", flush=True)
    while True:
        peer, _ = ours.accept()
        while data := peer.recv(65536):
            print(len(data), flush=True)
"""


@contextmanager
def listener(home: Path, uid: int) -> Iterator[subprocess.Popen[str]]:
    """Let a program of this uid listen on the socket of the home."""
    address = str(home / homes.SOCKET_NAME)
    argv = [sys.executable, "-I", "-S", "-c", LISTENER, address, str(uid)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program of another user")
@pytest.mark.parametrize("words", [["enqueue", "true"], ["show"], ["log", "1"]])
def test_nothing_is_sent_to_a_socket_of_another_user(home: Path, grass: Grass, words: list[str]) -> None:
    with listener(home, NOBODY) as other:
        done = grass(*words)
        other.kill()
        assert other.stdout is not None and other.stdout.read() == ""
    assert (done.returncode, done.stdout) == (5, "")
    assert f"uid {NOBODY}" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_nothing_is_sent_in_a_home_that_others_can_write(home: Path, grass: Grass, mode: int) -> None:
    with listener(home, os.geteuid()) as own:
        home.chmod(mode)
        done = grass("enqueue", "true")
        own.kill()
        assert own.stdout is not None and own.stdout.read() == ""
    assert (done.returncode, done.stdout) == (5, "")
    assert f"chmod go-w {home}" in done.stderr and done.stderr.count("\n") == 1
