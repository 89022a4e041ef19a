"""Sockets on loopback: 127.0.0.1 and ::1 at one port, and the names by which programs of this machine reach them."""

from __future__ import annotations

import errno
import os
import socket

from grassq.errors import Refused

#: The names and addresses of loopback, as clients write them into Host.
NAMES = ("127.0.0.1", "localhost", "[::1]")


class PortTaken(Refused):
    """Another program has the port."""


def hosts(port: int) -> frozenset[str]:
    """Return the values of the header Host that reach this port."""
    return frozenset(f"{name}:{port}" for name in NAMES)


def listen(port: int, backlog: int) -> list[socket.socket]:
    """Return sockets that listen on 127.0.0.1, and at the same port on ::1 where there is one; 0 is any free port.

    Raise PortTaken if another program has the port on either of them: it would get what is sent to `localhost`.
    """
    first = _bound(socket.AF_INET, "127.0.0.1", port, backlog)
    assert first is not None, "every machine has 127.0.0.1"
    try:
        second = _bound(socket.AF_INET6, "::1", int(first.getsockname()[1]), backlog)
    except Refused:
        first.close()
        raise
    return [first] if second is None else [first, second]


def _bound(family: socket.AddressFamily, host: str, port: int, backlog: int) -> socket.socket | None:
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        if family == socket.AF_INET6 and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return None
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken by another program; choose another: --port N") from None
        raise Refused(f"port {port} of {host} cannot be opened: {os.strerror(error.errno or 0)}") from None
