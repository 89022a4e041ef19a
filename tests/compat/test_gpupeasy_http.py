"""GPUPeasy's HTTP server alone, without a daemon: unknown users, slow senders, floods and the kernel's tables."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest
from tests.e2e.world import eventually, free_port

from grassq.compat.gpupeasy import http_server
from grassq.compat.gpupeasy.api import PeasyAnswer, PeasyApi
from grassq.compat.gpupeasy.http_server import CONNECTIONS_MAX, HttpServer
from grassq.compat.signals import Signals
from grassq.errors import Refused
from grassq.loopback_sockets import listen
from grassq.peer_uid import is_own, uid_of_peer

#: How long a sender may take: longer than any test stalls, and as short as a test can wait for.
REQUEST_S, SHORT_S = 30.0, 2.0


class FakeApi:
    """Answers everything at once."""

    def get(self, path: str) -> PeasyAnswer:
        return PeasyAnswer(200, {"status": "successful", "value": path})

    def post(self, path: str, body: bytes, kind: str) -> PeasyAnswer:
        return PeasyAnswer(200, {"status": "successful", "value": len(body)})


class FakeSignals:
    """A signal that the test sends."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.first = 0

    def fileno(self) -> int:
        return self.reading

    def take(self) -> int:
        return self.first

    def send(self) -> None:
        self.first = 2
        os.write(self.writing, b"x")


class FewDescriptors:
    """A listening socket, for which the process has no descriptors a few times."""

    #: How often there is none, and when that was.
    missing, seen = 0, list[float]()

    def __init__(self, sock: socket.socket) -> None:
        self.fileno, self.getsockname = sock.fileno, sock.getsockname
        self.setblocking, self.close, self._accept = sock.setblocking, sock.close, sock.accept

    def accept(self) -> object:
        if FewDescriptors.missing:
            FewDescriptors.missing -= 1
            self.seen.append(time.monotonic())
            raise OSError(errno.EMFILE, "Too many open files")
        return self._accept()


class Running:
    """A server on a thread."""

    def __init__(self, uid: int | None = os.getuid(), request_s: float = REQUEST_S) -> None:
        self.signals = FakeSignals()
        self.port = free_port()
        sockets = cast("list[socket.socket]", [FewDescriptors(each) for each in listen(self.port, 128)])
        api, signals = cast(PeasyApi, FakeApi()), cast(Signals, self.signals)
        server = HttpServer(api, sockets, signals, lambda here, there: uid, request_s)
        self.thread = threading.Thread(target=server.run)
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, data: bytes | None = None) -> bytes:
        with self.connect() as connection:
            connection.sendall(data or b"GET /scheduledjobs HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % self.port)
            found = b""
            try:
                while part := connection.recv(4096):
                    found += part
            except ConnectionError:
                pass
            return found

    def close(self) -> None:
        self.signals.send()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def server() -> Iterator[Running]:
    running = Running()
    yield running
    running.close()


@pytest.fixture
def hasty() -> Iterator[Running]:
    """A server that waits for a request for SHORT_S only."""
    running = Running(request_s=SHORT_S)
    yield running
    running.close()


@pytest.mark.parametrize("uid", [None, os.getuid() + 12345])
def test_an_unknown_user_is_refused_like_another_one(uid: int | None) -> None:
    running = Running(uid)
    try:
        assert b" 403 " in running.ask()
    finally:
        running.close()


def test_a_slow_sender_is_cut_and_keeps_nobody_waiting(hasty: Running) -> None:
    head = b"POST /addnewjob HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 100\r\n" % hasty.port
    with ExitStack() as stack:
        slow = [stack.enter_context(hasty.connect()) for _ in range(CONNECTIONS_MAX // 2)]
        for number, connection in enumerate(slow):
            connection.sendall(head if number % 2 else head + b"\r\nhalf a body")
        assert b" 200 " in hasty.ask(), "others are answered meanwhile"
        assert all(b" 408 " in connection.recv(4096) for connection in slow)


def test_a_flood_of_connections_has_no_flood_of_threads(server: Running) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(3 * CONNECTIONS_MAX):
            stack.enter_context(server.connect())
        assert threading.active_count() - before <= CONNECTIONS_MAX
    eventually(lambda: b" 200 " in server.ask(), "it answers again")


def test_without_descriptors_or_threads_it_pauses_and_goes_on(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    FewDescriptors.missing = 3
    assert b" 200 " in server.ask()
    gaps = [later - earlier for earlier, later in itertools.pairwise(FewDescriptors.seen)]
    assert len(gaps) == 2 and min(gaps) > http_server.PAUSE_S / 2, "it is no busy loop"

    monkeypatch.setattr(http_server, "PAUSE_S", 0.001)
    start, failing = threading.Thread.start, [*range(CONNECTIONS_MAX + 1)]

    def start_one(self: threading.Thread) -> None:
        if failing:
            failing.pop()
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    while failing:
        assert server.ask() == b""
    assert b" 200 " in server.ask(), "every place was given back"


def test_a_client_may_wait_for_the_word_to_go_on(server: Running) -> None:
    head = b"POST /addnewjob HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 3\r\n" % server.port
    with server.connect() as connection:
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"abc")
        assert b'"value": 3' in connection.recv(4096)


def test_a_port_that_is_taken_is_told_in_words(server: Running) -> None:
    with pytest.raises(Refused, match=f"port {server.port} of 127.0.0.1 is taken"):
        listen(server.port, 128)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_tells_whose_connection_it_is(family: socket.AddressFamily, host: str) -> None:
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no ::1")
    with listening, socket.create_connection(listening.getsockname()[:2]) as client:
        connection, address = listening.accept()
        with connection:
            here: tuple[Any, ...] = connection.getsockname()
            assert uid_of_peer(here, address) == os.getuid() and is_own(here, address)
            client.close()
            assert uid_of_peer(here, address) is None and not is_own(here, address), "a closed end is nobody's"


def test_a_socket_of_ipv6_may_be_connected_to_an_address_of_ipv4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_INET6) as client:
        try:
            client.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
        except OSError:
            pytest.skip("this machine has no IPv6")
        connection, address = listening.accept()
        with connection:
            assert uid_of_peer(connection.getsockname(), address) == os.getuid()
