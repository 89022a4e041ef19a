"""Requests to an ssh process: whatever it answers, or does not answer, ends in words and in time."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from grassq.machines.ssh.mux import MESSAGE_MAX, MuxSession, TooManySessions
from grassq.machines.transport import LinkLost, Stream

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 0.2
LONG_S = 60.0
HELLO = struct.pack(">III", 8, 1, 4)
OPENED = struct.pack(">IIII", 12, 0x80000006, 0, 0)

Serve = Callable[[bytes], str]


def failure(reason: bytes) -> bytes:
    """Return the message of a request that failed."""
    return struct.pack(">IIII", 12 + len(reason), 0x80000003, 0, len(reason)) + reason


def exited(code: int) -> bytes:
    """Return the message of a session that ended with a code."""
    return struct.pack(">IIII", 12, 0x80000004, 0, code)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Listen at a path, and give these bytes to the client that comes; its request is read and dropped."""
    servers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> str:
        path = str(tmp_path / f"s{len(servers)}")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        servers.append(server)
        threads.append(threading.Thread(target=serve_one, args=(server, answer)))
        threads[-1].start()
        return path

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join()


def serve_one(server: socket.socket, answer: bytes, descriptors_max: int = 1000) -> None:
    """Answer the client that comes, and read until its end, or until this many descriptors have come."""
    try:
        client = server.accept()[0]
    except OSError:
        return  # the test is over
    count = 0
    with client:
        client.sendall(answer)
        while count < descriptors_max:
            data, descriptors, *_ = socket.recv_fds(client, 1 << 16, 3)
            for descriptor in descriptors:
                os.close(descriptor)
            count += len(descriptors)
            if not data:
                return


def session(path: str, within_s: float = LONG_S) -> Stream:
    return Stream(MuxSession(path, "true", within_s, lambda: None))


def test_a_session_that_is_opened_ends_with_its_code(serve: Serve) -> None:
    stream = session(serve(HELLO + OPENED + exited(7)))
    assert stream.finish(LONG_S) == 7
    stream.close()


def test_only_a_session_whose_command_still_runs_counts_as_abandoned_when_it_is_closed(serve: Serve) -> None:
    abandoned: list[str] = []
    for name, answer in (("ended", HELLO + OPENED + exited(7)), ("running", HELLO + OPENED)):
        Stream(MuxSession(serve(answer), "true", LONG_S, partial(abandoned.append, name))).close()
    assert abandoned == ["running"]


def test_a_hello_with_extensions_of_a_newer_ssh_is_understood(serve: Serve) -> None:
    extended = (
        struct.pack(">III", 8 + 4 + 4 + 4 + 1, 1, 4) + struct.pack(">I", 4) + b"info" + struct.pack(">I", 1) + b"0"
    )
    stream = session(serve(extended + OPENED + exited(0)))
    assert stream.finish(LONG_S) == 0
    stream.close()


def test_a_refusal_of_the_server_is_told_from_other_failures(serve: Serve) -> None:
    with pytest.raises(TooManySessions, match="MaxSessions"):
        session(serve(HELLO + failure(b"Session open refused by peer")))
    with pytest.raises(LinkLost, match="no session: Permission denied") as lost:
        session(serve(HELLO + failure(b"Permission denied")))
    assert not isinstance(lost.value, TooManySessions)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (struct.pack(">III", 8, 1, 5), "another protocol"),
        (struct.pack(">III", 8, 2, 4), "another protocol"),
        (struct.pack(">I", MESSAGE_MAX + 1), f"{MESSAGE_MAX + 1:,} bytes"),
        (struct.pack(">I", 0xFFFFFFFF), "4,294,967,295 bytes"),
        (struct.pack(">I", 0), "0 bytes"),
        (HELLO + struct.pack(">II", 4, 0x7777), "no session: 0x7777"),
        (HELLO + failure(b"\x1b[2J\xff" * 1000), "no session"),
    ],
)
def test_an_answer_that_is_none_is_a_lost_link_in_printable_words(serve: Serve, answer: bytes, words: str) -> None:
    with pytest.raises(LinkLost, match=words) as lost:
        session(serve(answer))
    assert str(lost.value).isprintable()


@pytest.mark.parametrize("answer", [b"", HELLO[:3], HELLO[:7], HELLO, HELLO + OPENED[:9]])
def test_an_ssh_process_that_says_no_more_is_given_up_at_the_deadline(serve: Serve, answer: bytes) -> None:
    with pytest.raises(LinkLost, match="does not answer"):
        session(serve(answer), SOON_S)


def test_a_session_without_a_code_ends_as_ssh_says_it(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        thread = threading.Thread(target=serve_one, args=(server, HELLO + OPENED, 3))
        thread.start()
        stream = session(path)
        thread.join()
        assert stream.finish(LONG_S) == 255
        stream.close()


def test_a_path_where_no_ssh_process_listens_is_a_lost_link(tmp_path: Path) -> None:
    with pytest.raises(LinkLost, match="No such file"):
        session(str(tmp_path / "nothing"))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
        with pytest.raises(LinkLost, match="refused"):
            session(str(tmp_path / "dead"))
