"""What the routes about tokens and the audit answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from grassq.store.base import Scope
from grassq.web.access.audit import AuditEntry


class TokenDocument(TypedDict):
    """A token or a code, without its secret."""

    id: str
    scope: Scope
    #: The user or the worker that holds it.
    name: str
    #: The only queues it may submit to; null for every queue.
    queues: Sequence[str] | None
    #: Whether it may use queues without a command of their own.
    bare: bool
    #: The highest priority that it may give to a job; null for the broker's setting.
    priority_max: int | None
    #: Jobs of this token in the store.
    jobs: int
    #: Bytes that these jobs take of the store.
    bytes: int
    #: Whether it is a code that was not exchanged for a token yet.
    is_code: bool
    #: For the session of a browser: `owner`, or the token that it acts for; null for a token that is no session.
    page_of: str | None
    created: str
    expires: str | None
    #: When it was revoked or exchanged.
    ended: str | None
    #: Whether it is valid now.
    live: bool


class TokensDocument(TypedDict):
    """Every token and code."""

    tokens: list[TokenDocument]


class CodeDocument(TypedDict):
    """A new code."""

    #: What to type at `grass login` or `grass join`; it works once.
    code: str
    id: str
    expires: str | None


class RedeemedDocument(TypedDict):
    """A token that a code was exchanged for; the client has made its secret."""

    #: The id of the token.
    token: str
    scope: Scope
    name: str
    #: The id of the broker's store.
    store_id: str
    queues: Sequence[str] | None
    #: Proofs that the broker knows the tokens which the client named.
    proofs: dict[str, str]


class LogoutDocument(TypedDict):
    """A token that has ended."""

    id: str
    name: str


class RevokedDocument(TypedDict):
    """A token or code that was revoked."""

    id: str
    name: str
    #: Its unfinished jobs that are held now.
    held: int
    killed: int
    #: Its jobs that still run.
    running: int


class AuditDocument(TypedDict):
    """The newest entries of the audit, the oldest of them first."""

    entries: list[AuditEntry]
