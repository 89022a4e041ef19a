"""The routes about access: codes, tokens, and the audit."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from grassq.broker import tokens
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import BulkChange
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import timestamp
from grassq.broker.engine import Engine
from grassq.core.job_options import check_bounds
from grassq.core.names import check_name
from grassq.core.syntax import join_codes
from grassq.core.syntax.addresses import Address
from grassq.core.syntax.selectors import ByToken
from grassq.errors import BadInput, GrassError, Refused
from grassq.store.base import Scope, Token, TokenUsage
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Guard, Route
from grassq.web.access.description import Description, Parameter
from grassq.web.access.principal import CALLER
from grassq.web.answers.tokens import (
    AuditDocument,
    CodeDocument,
    LogoutDocument,
    RedeemedDocument,
    RevokedDocument,
    TokenDocument,
    TokensDocument,
)
from grassq.web.responses import SlowAnswer, digest, document

CODE_S = 3600.0
CODE_MIN_S = 60.0
CODE_MAX_S = 30 * 86400.0
QUEUES_MAX = 100
SECRET_MAX = 200
LAST_MAX = 10_000
#: How many older tokens a client names when it exchanges a code.
HOLDS_MAX = 16


class CreateBody(requests.Body, kw_only=True):
    """The rights of a new code."""

    scope: Scope
    queues: list[str] | None = None
    bare: bool = False
    name: str = ""
    ttl_s: float = CODE_S
    #: The highest priority that the token may give to a job; null for the broker's setting.
    priority_max: int | None = None

    def __post_init__(self) -> None:
        check_bounds(priority=self.priority_max)


class RevokeBody(requests.Body, kw_only=True):
    """A token or code to revoke."""

    id: str
    #: End the jobs of the token too: those that wait, and those that run.
    kill: bool = False


class RedeemBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A code, and the digest of the secret that the client made."""

    code: str
    secret: str
    digest: str
    kind: tokens.Kind
    name: str
    #: Tokens that the client has already, with a proof of each.
    holds: Annotated[dict[str, str], Meta(max_length=HOLDS_MAX)] = {}


class Reach(Struct, frozen=True):
    """The addresses and the pin of this broker, for join codes."""

    addresses: list[Address]
    fingerprint: bytes


class Tokens:
    """The handlers."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        self._engine = engine
        self._guard = guard
        #: Set once the broker listens on TCP.
        self.reach: Reach | None = None
        #: Id and secret of a code are derived from the request's key: a repeated request gets the same code.
        self._seed = secrets.token_bytes(32)

    def routes(self) -> Sequence[Route]:
        """Return the routes."""

        def about(summary: str, answer: object, body: object = None, *query: Parameter) -> Description:
            return Description("tokens", summary, answer, query=query, body=body)

        last = Parameter("last", f"How many entries, at most {LAST_MAX:,}", int, 100)
        redeem = about("Exchange a code for a token", RedeemedDocument, RedeemBody)
        logout = about("End the token that this request is sent with", LogoutDocument)
        show = about("Every token and code, without their secrets", TokensDocument)
        create = about("Make a code for one user or one worker", CodeDocument, CreateBody)
        revoke = about("Revoke a token or a code", RevokedDocument, RevokeBody)
        audit = about("The newest entries of the audit", AuditDocument, None, last)
        return [
            Route("POST", "/v1/redeem", self.redeem, "open", about=redeem),
            Route("POST", "/v1/logout", self.logout, "read", about=logout),
            Route("GET", "/v1/tokens", self.list, "admin", about=show),
            Route("POST", "/v1/tokens/create", self.create, "admin", about=create),
            Route("POST", "/v1/tokens/revoke", self.revoke, "admin", about=revoke),
            Route("GET", "/v1/audit", self.audit, "admin", about=audit),
        ]

    async def load(self) -> None:
        """Load all tokens from the store."""
        self._guard.load(await self._engine.read(lambda batch: batch.store.tokens()))

    async def list(self, request: web.Request) -> web.Response:
        """Answer with every token and code, without their secrets."""

        def documents(batch: Batch) -> Sequence[TokenDocument]:
            return [_document(token, batch.now, tokens.usage_of(batch, token.id)) for token in batch.store.tokens()]

        return document(TokensDocument(tokens=[*await self._engine.read(documents)]))

    async def create(self, request: web.Request) -> web.Response:
        """Make a code for one user or one worker."""
        body = requests.decode(request[BODY], CreateBody)
        if body.name:
            tokens.check_holder_name(body.name)
        if body.name == tokens.START_UP:
            raise BadInput(f"{tokens.START_UP!r} is the name of the broker's own codes; choose another")
        _check_rights(body)
        token, text = await self._code(body)
        request[ENTRY].about = f"code {token.id} {token.scope}"
        return document(CodeDocument(code=text, id=token.id, expires=timestamp(token.expires)))

    async def start_up_code(self, scope: Scope) -> str:
        """Return a code for one worker or one user, which a broker prints when it starts."""
        body = CreateBody(scope=scope, key=secrets.token_hex(16), name=tokens.START_UP)
        _, text = await self._code(body)
        return text

    async def _code(self, body: CreateBody) -> tuple[Token, str]:
        reach = self.reach
        if reach is None:
            raise Refused(
                "this daemon listens on its own socket only; `grass daemon --bind HOST` opens it to other machines"
            )
        id_ = self._derived("id", body.key).hex()[:8]
        secret = base64.urlsafe_b64encode(self._derived("secret", body.key)).decode("ascii").rstrip("=")

        def make(batch: Batch) -> Token:
            return tokens.create(
                batch,
                Token(
                    id=id_,
                    digest=tokens.digest_of(secret),
                    scope=body.scope,
                    name=body.name,
                    created=batch.now,
                    is_code=True,
                    queues=None if body.queues is None else tuple(body.queues),
                    bare=body.bare,
                    priority_max=body.priority_max,
                    expires=batch.now + body.ttl_s,
                ),
            )

        token = await self._engine.change(make)
        return token, join_codes.encode(join_codes.Code(reach.addresses, reach.fingerprint, token.id, secret))

    def _derived(self, what: str, key: str) -> bytes:
        return hmac.digest(self._seed, f"{what} {key}".encode("ascii"), "sha256")

    async def redeem(self, request: web.Request) -> web.Response:
        """Exchange a code for a token; the client sends only the digest of the new secret."""
        body = requests.decode(request[BODY], RedeemBody)
        try:
            digest = bytes.fromhex(body.digest)
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size or len(body.secret) > SECRET_MAX or not body.secret.isascii():
            raise BadInput("invalid request: a digest is 64 hex digits, and a secret one short word")
        asked = tokens.Redemption(
            code=body.code,
            shown=tokens.digest_of(body.secret),
            digest=digest,
            kind=body.kind,
            name=body.name,
            new_id=secrets.token_hex(4),
            holds=body.holds,
            pin=b"" if self.reach is None else self.reach.fingerprint,
        )
        done = await self._engine.change(partial(tokens.redeem, asked=asked))
        token = done.token
        for each in (token, *done.ended):
            self._guard.put(each)
        note = request[ENTRY]
        note.who, note.name, note.about = f"token {token.id}", token.name, f"code {body.code} {token.scope}"
        return document(
            RedeemedDocument(
                token=token.id,
                scope=token.scope,
                name=token.name,
                store_id=self._engine.status.store_id,
                queues=token.queues,
                proofs=done.proofs,
            )
        )

    async def logout(self, request: web.Request) -> web.Response:
        """End the token that this request was sent with; its jobs go on."""
        id_ = request[CALLER].session or request[CALLER].token
        if id_ is None:
            raise BadInput("the owner of this daemon needs no token here")
        token = await self._engine.change(lambda batch: tokens.give_up(batch, id_))
        request[ENTRY].about = f"token {token.id} {token.name}"
        answer = document(LogoutDocument(id=token.id, name=token.name))
        answer.force_close()
        self._guard.put(token, keep=asyncio.current_task())
        return answer

    async def revoke(self, request: web.Request) -> web.StreamResponse:
        """Revoke a token or a code, end its open connections, and hold or kill its unfinished jobs.

        From the first commit on none of these jobs starts. They are held in further steps, because they may be many.
        """
        body = requests.decode(request[BODY], RevokeBody)
        token = await self._engine.change(lambda batch: tokens.revoke(batch, body.id))
        request[ENTRY].about = f"{'code' if token.is_code else 'token'} {token.id} {token.name}"
        self._guard.put(token, keep=asyncio.current_task())
        action = actions.KillJobs() if body.kill else actions.HoldRevoked()
        change = BulkChange(
            action, [ByToken(token.id)], key=body.key, digest=digest(b"revoke " + request[BODY]), required=False
        )
        answer = SlowAnswer(request)
        try:
            done = await self._engine.change_in_steps(change.start, answer.keep_alive)
            running = await self._engine.read(lambda batch: _running(batch, token.id))
        except GrassError as error:
            return await answer.refuse(error)
        held, killed = (0, len(done.ids)) if body.kill else (len(done.ids), 0)
        told = RevokedDocument(id=token.id, name=token.name, held=held, killed=killed, running=running)
        response = await answer.end(told)
        if token.id in (request[CALLER].token, request[CALLER].session):
            response.force_close()
        return response

    async def audit(self, request: web.Request) -> web.Response:
        """Answer with the newest entries of the audit."""
        last = requests.number(request, "last", 100, LAST_MAX)
        if self._guard.audit is None:
            raise Refused("this daemon keeps no audit")
        return document(AuditDocument(entries=[*await asyncio.to_thread(self._guard.audit.read, last)]))


def _check_rights(body: CreateBody) -> None:
    if not CODE_MIN_S <= body.ttl_s <= CODE_MAX_S:
        raise BadInput(f"a code lives between {CODE_MIN_S:g} seconds and {CODE_MAX_S / 86400:g} days")
    if body.scope != "submit" and (body.queues is not None or body.bare or body.priority_max is not None):
        raise BadInput("queues, bare and priority_max go with the scope submit only")
    if body.queues is not None and not 1 <= len(body.queues) <= QUEUES_MAX:
        raise BadInput(f"a token names 1 to {QUEUES_MAX} queues, or none for every queue")
    for queue in body.queues or ():
        check_name(queue, "queue name")


def _running(batch: Batch, token: str) -> int:
    """Return how many jobs of a token have started and not ended."""
    return sum(job.token == token for job in batch.board.holding.values())


def _document(token: Token, now: float, used: TokenUsage) -> TokenDocument:
    return {
        "id": token.id,
        "scope": token.scope,
        "name": token.name,
        "queues": token.queues,
        "bare": token.bare,
        "priority_max": token.priority_max,
        "jobs": used.jobs,
        "bytes": used.bytes,
        "is_code": token.is_code,
        "page_of": token.page_of,
        "created": timestamp(token.created),
        "expires": timestamp(token.expires),
        "ended": timestamp(token.ended),
        "live": tokens.is_live(token, now),
    }
