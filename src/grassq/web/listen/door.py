"""The doors of a broker on TCP: TLS for other machines, and plain HTTP on loopback for a browser of this machine."""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct

from grassq import loopback_sockets


class Door(Struct, frozen=True):
    """How requests come in at one port, and what their senders call it."""

    scheme: Literal["https", "http"]
    #: The name of the cookie that a session of a browser has here.
    cookie: str
    #: The only values of Host here; None for every address of the machine and every name of the broker.
    hosts: frozenset[str] | None = None
    #: Where `/` leads.
    begins_at: str = "/"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can come in here."""
        return self.hosts is not None

    def digest(self, secret: str, uid: int | None) -> bytes:
        """Return what is kept of the secret of a session: it is good at this door only, and for processes of one user.

        So the cookie of a session is of no use as a token, at another port, or for another user of this machine.
        """
        return hashlib.sha256(f"{self.cookie} {uid} {secret}".encode("utf-8", "surrogateescape")).digest()


#: A cookie with this prefix is taken by browsers only over TLS, for the whole host and from no other host.
TLS = Door("https", "__Host-grass")


def loopback_door(port: int, begins_at: str = "/") -> Door:
    """Return the loopback door at a port. Cookies are shared by all ports of a host, so the name has the port."""
    return Door("http", f"grass-{port}", loopback_sockets.hosts(port), begins_at)
