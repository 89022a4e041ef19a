"""The loopback door: the port on 127.0.0.1 at which a browser of this machine finds the page."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

from aiohttp import web

from grassq import atomic_files, loopback_sockets
from grassq.core.syntax.addresses import PORT_MAX
from grassq.core.syntax.numbers import is_number
from grassq.errors import Refused
from grassq.web.answers.daemon import PageDocument
from grassq.web.listen import door
from grassq.web.listen.admission import Admission

log = logging.getLogger(__name__)

#: Holds the port in the home, so that the next daemon opens it again and open pages find it.
FILE_NAME = "web-port"
FILE_MAX = 16
#: How many ports are tried, from the wanted one on, before the system chooses one.
TRIED_MAX = 20
BACKLOG = 256


class LoopbackDoor:
    """Listens on 127.0.0.1, and on ::1 where there is one, while it is open."""

    def __init__(self, server: web.Server, home: str, wanted: int, begins_at: str | None = None) -> None:
        """`wanted` is the port of the setting `web_port`.

        A door beside the one of the home has `begins_at`, to which its `/` leads; its port is not remembered.
        """
        self._server = server
        self._home = home
        self._wanted = wanted
        self._begins_at = begins_at
        self._admission: Admission | None = None
        #: The sockets that listen; none while the door is closed.
        self.sockets: list[socket.socket] = []
        self._opening = asyncio.Lock()
        #: The port; None while the door is closed.
        self.port: int | None = None

    async def open(self, port: int | None = None) -> int:
        """Open the door at a port, or at the next free one if none is given; return its port.

        An open door stays as it is, unless another port is given.
        """
        async with self._opening:
            if self.port is not None and port in (None, self.port):
                return self.port
            sockets = loopback_sockets.listen(port, BACKLOG) if port is not None else self._bind_free()
            await self.close()
            port = self._listen(sockets)
            if self._begins_at is None:
                self._remember(port)
            return port

    def beside(self, begins_at: str) -> LoopbackDoor:
        """Return another door to the same page, which is closed."""
        return LoopbackDoor(self._server, self._home, self._wanted, begins_at)

    def reopen(self) -> None:
        """Open the door at the port of the last daemon; if another program has the port now, only log it."""
        port = self.remembered()
        if port is None:
            return
        try:
            self._listen(loopback_sockets.listen(port, BACKLOG))
        except Refused as error:
            log.warning("the page stays closed: %s", error)

    def _remember(self, port: int) -> None:
        try:
            atomic_files.write_changed(self._home, FILE_NAME, b"%d\n" % port)
        except OSError as error:
            # As on a full disk: the page works, and the next daemon opens it at the next `grass web`.
            log.warning("the port of the page is not remembered: %s", error.strerror)

    def remembered(self) -> int | None:
        """Return the port at which the door was opened last; None if it never was."""
        try:
            with Path(self._home, FILE_NAME).open("rb") as file:
                text = file.read(FILE_MAX).decode("ascii", "replace").strip()
        except OSError:
            return None
        return int(text) if is_number(text) and 0 < int(text) <= PORT_MAX else None

    async def close(self) -> None:
        """Close the door. Connections with a session end with the web server; those of a door beside end now."""
        self.port = None
        if self._admission is not None:
            await self._admission.close()
            if self._begins_at is not None:
                self._admission.cut_all()
            self._admission = None
        for sock in self.sockets:
            sock.close()
        self.sockets = []

    def _listen(self, sockets: list[socket.socket]) -> int:
        self.port = int(sockets[0].getsockname()[1])
        self.sockets = sockets
        self._admission = Admission(self._server, None, door.loopback_door(self.port, self._begins_at or "/"))
        for sock in sockets:
            self._admission.listen(sock)
        return self.port

    def describe(self, *, is_built: bool) -> PageDocument:
        """Return what `grass doctor` shows: the port, the port that was wanted again, and whether there is a page."""
        return {"port": self.port, "remembered": self.remembered(), "is_built": is_built}

    def _bind_free(self) -> list[socket.socket]:
        first = self.remembered() or self._wanted
        for port in (*range(first, min(first + TRIED_MAX, PORT_MAX + 1)), 0):
            with contextlib.suppress(Refused):
                return loopback_sockets.listen(port, BACKLOG)
        return loopback_sockets.listen(0, BACKLOG)
