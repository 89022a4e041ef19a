"""The caller of a request: the owner on the unix socket, or the holder of a token."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from grassq.broker.tokens import Bearer, TokenLimits
from grassq.store.base import Scope


class Principal(Struct, frozen=True):
    """An accepted caller and its rights."""

    scope: Scope
    #: The id of the token; None on the unix socket.
    token: str | None = None
    #: The name in the audit and the log: of a user or of a worker.
    name: str = "owner"
    #: The only queues this token may submit to; None for every queue.
    queues: tuple[str, ...] | None = None
    #: Whether the caller may use queues without a command of their own.
    bare: bool = False
    #: What the token may have in the store; None for no limits.
    limits: TokenLimits | None = None

    @property
    def is_local(self) -> bool:
        """Whether the caller is the owner, on the unix socket."""
        return self.token is None

    @property
    def limited_to(self) -> str | None:
        """The token whose jobs alone the caller may change; None if the caller may change all jobs."""
        return self.token if self.scope == "submit" else None

    @property
    def bearer(self) -> Bearer:
        """The token that answers for what the caller submits, and its limits."""
        return Bearer(self.token, self.limits)


OWNER = Principal("admin", bare=True)

#: The key of the caller in a request: `request[CALLER]`. (aiohttp warns of a plain string as a key.)
CALLER = web.RequestKey("caller", Principal)
