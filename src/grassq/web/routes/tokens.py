"""The routes about access: codes, tokens, and the audit."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from functools import partial
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from grassq.broker import tokens
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import BulkChange
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.views import timestamp
from grassq.core.job_options import check_bounds
from grassq.core.names import check_name
from grassq.core.syntax import join_codes
from grassq.core.syntax.addresses import Address
from grassq.core.syntax.selectors import ByToken
from grassq.errors import BadInput, GrassError, Refused
from grassq.store.base import Scope, Token, TokenUsage
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Guard
from grassq.web.access.principal import CALLER
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

    async def load(self) -> None:
        """Load all tokens from the store."""
        self._guard.load(await self._engine.read(lambda batch: batch.store.tokens()))

    async def list(self, request: web.Request) -> web.Response:
        """Answer with every token and code, without their secrets."""

        def documents(batch: Batch) -> list[dict[str, object]]:
            return [_document(token, batch.now, batch.usage(token.id)) for token in batch.store.tokens()]

        return document({"tokens": await self._engine.read(documents)})

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
        return document({"code": text, "id": token.id, "expires": timestamp(token.expires)})

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
                    digest=hashlib.sha256(secret.encode("ascii")).digest(),
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
            shown=hashlib.sha256(body.secret.encode("ascii")).digest(),
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
            {
                "token": token.id,
                "scope": token.scope,
                "name": token.name,
                "store_id": self._engine.status.store_id,
                "queues": token.queues,
                "proofs": done.proofs,
            }
        )

    async def logout(self, request: web.Request) -> web.Response:
        """End the token that this request was sent with; its jobs go on."""
        id_ = request[CALLER].token
        if id_ is None:
            raise BadInput("the owner of this daemon needs no token here")
        token = await self._engine.change(lambda batch: tokens.give_up(batch, id_))
        request[ENTRY].about = f"token {token.id} {token.name}"
        answer = document({"id": token.id, "name": token.name})
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
        jobs = {"held": 0 if body.kill else len(done.ids), "killed": len(done.ids) if body.kill else 0}
        response = await answer.end({"id": token.id, "name": token.name, **jobs, "running": running})
        if token.id == request[CALLER].token:
            response.force_close()
        return response

    async def audit(self, request: web.Request) -> web.Response:
        """Answer with the newest entries of the audit."""
        last = requests.number(request, "last", 100, LAST_MAX)
        if self._guard.audit is None:
            raise Refused("this daemon keeps no audit")
        return document({"entries": await asyncio.to_thread(self._guard.audit.read, last)})


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


def _document(token: Token, now: float, used: TokenUsage) -> dict[str, object]:
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
        "created": timestamp(token.created),
        "expires": timestamp(token.expires),
        "ended": timestamp(token.ended),
        "live": tokens.is_live(token, now),
    }
