"""The caller of a request: the owner on the unix socket, the holder of a token, or the session of a browser."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from grassq.broker.tokens import Bearer, TokenLimits
from grassq.core.job_options import Pairs
from grassq.store.base import Scope


class OwnDefaults(Struct, frozen=True):
    """What a job from the owner's own page gets: the directory, environment and umask of the daemon."""

    cwd: bytes = b"/"
    env: Pairs = ()
    umask: int = 0o022


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
    #: The session of a browser; its id is not `token` if the session acts for another token.
    session: str | None = None
    #: Set for the owner's own page on loopback: its jobs are jobs of this machine.
    own: OwnDefaults | None = None

    @property
    def is_local(self) -> bool:
        """Whether the caller is the owner, on the unix socket."""
        return self.token is None

    @property
    def is_at_home(self) -> bool:
        """Whether the caller's jobs are jobs of this machine: of the owner on the unix socket, or on the own page.

        The own page is an admin session that the owner opened here, on the loopback door. It is not the owner: what
        needs `local` is refused, it is in the audit, and it can be ended.
        """
        return self.token is None or self.own is not None

    @property
    def limited_to(self) -> str | None:
        """The token whose jobs alone the caller may change; None if the caller may change all jobs."""
        return self.token if self.scope == "submit" else None

    def may_change(self, by: str | None) -> bool:
        """Tell whether the caller may change a job that was submitted with the token `by`; None for the owner."""
        return self.scope == "admin" or (self.scope == "submit" and by is not None and by == self.token)

    @property
    def bearer(self) -> Bearer:
        """The token that answers for what the caller submits, and its limits."""
        return Bearer(self.by, self.limits)

    @property
    def by(self) -> str | None:
        """The token of the caller's jobs; None for jobs of the owner."""
        return None if self.is_at_home else self.token


OWNER = Principal("admin", bare=True)

#: The key of the caller in a request: `request[CALLER]`. (aiohttp warns of a plain string as a key.)
CALLER = web.RequestKey("caller", Principal)
