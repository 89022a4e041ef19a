"""Who asks: the owner on the user's own socket, or the holder of a token."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from grassq.store.base import Scope


class Principal(Struct, frozen=True):
    """Somebody who was let in, and what they may do."""

    scope: Scope
    #: The id of the token; None on the user's own socket.
    token: str | None = None
    #: A word for the audit and the log: a user, a person or a worker.
    name: str = "owner"
    #: The only queues this token may submit to; None for every one.
    queues: tuple[str, ...] | None = None
    #: It may use queues that have no command of their own.
    bare: bool = False

    @property
    def is_local(self) -> bool:
        """Whether this is the owner, on the socket nobody else can open."""
        return self.token is None


OWNER = Principal("admin", bare=True)

#: Where a request keeps its caller: `request[CALLER]`. (aiohttp warns of plain text as a key.)
CALLER = web.RequestKey("caller", Principal)
