"""The bad line does what the fault runs ask of it, at the byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.machines.proxy import Proxies, Proxy

MOST = 1 << 20
SHORT_S = 0.2


class Echo:
    """A server that sends back what comes."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._main, daemon=True).start()

    def _main(self) -> None:
        try:
            while True:
                threading.Thread(target=self._serve, args=self._server.accept()[:1], daemon=True).start()
        except OSError:
            return

    @staticmethod
    def _serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(MOST):
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A line to a server that sends everything back."""
    echo, proxies = Echo(), Proxies(None)
    try:
        yield proxies.proxy("127.0.0.1", echo.port)
    finally:
        proxies.close()
        echo.close()


def connect(proxy: Proxy) -> socket.socket:
    """Return a connection through the line."""
    connection = socket.create_connection((proxy.address, proxy.port), timeout=10)
    connection.sendall(b"hello")
    assert exactly(connection, 5) == b"hello"
    return connection


def exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes, or what comes before the end."""
    found = b""
    while len(found) < size and (data := connection.recv(size - len(found))):
        found += data
    return found


def is_silent(connection: socket.socket) -> bool:
    """Whether nothing comes for a moment."""
    connection.settimeout(SHORT_S)
    try:
        connection.recv(1)
        return False
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10)


def test_a_cut_ends_the_connections_of_now_and_takes_new_ones(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.fault("cut")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connect(proxy) as connection:
        assert proxy.taken == 2


def test_a_cut_comes_after_so_many_bytes(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.fault("cut", there=False, at=3)
        connection.sendall(b"0123456789")
        with pytest.raises(ConnectionResetError):
            exactly(connection, 10)
    connect(proxy).close()
    assert proxy.passed == (20, 13)


def test_a_stalled_line_delivers_when_it_heals(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.fault("stall", back=False, at=4)
        connection.sendall(b"0123456789")
        assert exactly(connection, 4) == b"0123"
        assert is_silent(connection)
        proxy.heal()
        assert exactly(connection, 6) == b"456789"


def test_a_line_swallows_one_direction(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.fault("swallow", there=False)
        connection.sendall(b"lost")
        assert is_silent(connection)
        proxy.heal()
        connection.sendall(b"more")
        assert exactly(connection, 4) == b"more"


def test_a_slow_line_delivers_everything(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.slow(100_000)
        connection.sendall(bytes(20_000))
        assert exactly(connection, 20_000) == bytes(20_000)
