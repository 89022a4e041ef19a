"""Access rules: on the unix socket for its owner and root, over TCP for tokens and sessions with the right scope.

One middleware runs before every route and method, on every socket. It refuses each route that is not in its table.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Literal, get_args

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import inbox
from grassq.broker.inbox import WORKS_FOR
from grassq.broker.tokens import TokenLimits, digest_of
from grassq.store.base import PAGE_OF_OWNER, Scope, Token
from grassq.web.access.audit import NO_CALLER, Audit, AuditEntry
from grassq.web.access.bodies import BODY_MAX, OPEN_BODY_MAX, SMALL_BODY_MAX, BodyReader
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER, OWNER, OwnDefaults, Principal
from grassq.web.access.rate_limit import RateLimit
from grassq.web.access.sender import HOW_TO_REACH, check_sender, cookies, is_from_own_page, is_one_of
from grassq.web.access.turns import CallerTurns
from grassq.web.listen.admission import ClientConnection
from grassq.web.listen.door import Door
from grassq.web.responses import Denied, Handler, errors_in_words, version_header

#: Connections one token may have open.
CONNECTIONS_MAX = 256
#: Requests of one token that are worked on at once; more wait for their turn.
REQUESTS_AT_ONCE = 4
#: Requests of one token that wait for something or follow it: waits, logs, events. They are not among those above.
WAITING_MAX = 128
#: Failed redemptions that the audit records; more are only counted, so that nothing can fill the audit.
FAILURES_PER_MINUTE = 60
HOW_TO_LOG_IN = "`grass login` with a code from the broker (a worker: `grass join`)"
SAME_PORT = "open the link as `grass web` prints it, with the same port at both ends of an ssh tunnel"
HOW_TO_OPEN = "`grass web` opens the page with a new link"

Need = Literal["page", "open", "read", "submit", "admin", "worker", "home", "local"]
#: The scopes that meet each need. Over TCP no scope meets `local`, and only the owner's own page meets `home`.
#: `page` and `open` need no scope; `page` is for files without any data in them, which a link on another site may lead
#: to.
_SCOPES_FOR: dict[str, frozenset[Scope]] = {
    "read": frozenset({"read", "submit", "admin"}),
    "submit": frozenset({"submit", "admin"}),
    "admin": frozenset({"admin"}),
    "worker": frozenset({"worker"}),
    "home": frozenset({"admin"}),
}
#: The owner's own submissions are not in the audit: they would push out everything else, and the store has the jobs.
_SUBMISSIONS = frozenset({"/v1/enqueue", "/v1/submit", "/v1/submit-many", "/v1/what-if"})
_CREDENTIALS = struct.Struct("3i")


#: The line of a request in the audit; a handler says what the request was about.
ENTRY = web.RequestKey("entry", AuditEntry)
#: The body, read whole before a handler is called.
BODY = web.RequestKey("body", bytes)


class Route(Struct, frozen=True):
    """One route: method, path, handler, what it needs, and what it is for."""

    method: str
    path: str
    handler: Handler
    need: Need
    #: The largest body from another machine.
    body_max: int = SMALL_BODY_MAX
    #: The handler mostly waits for something or follows it: it takes no turn, and counts as a request that waits.
    waits: bool = False
    #: What the route does, takes and answers. A test fails for a route of `Api` that has none.
    about: Description | None = None


class Guard:
    """Knows the tokens and the open connections, and lets requests through or refuses them."""

    def __init__(
        self,
        audit: Audit | None = None,
        hosts: Iterable[str] = (),
        now: Callable[[], float] = time.time,
        limits: TokenLimits | None = None,
        own: OwnDefaults | None = None,
    ) -> None:
        """Answer to `hosts` beside addresses: the names in the certificate, and the setting `hosts`.

        `limits` hold for each token with the scope submit; `own` is what jobs of the owner's own page get.
        """
        self.audit = audit
        self._now = now
        self._limits = limits or TokenLimits()
        self._own = own or OwnDefaults()
        self._hosts = {"grass", "localhost", *_own_names(), *(host.lower().rstrip(".") for host in hosts)}
        self._routes: dict[web.AbstractRoute, Route] = {}
        self._tokens: dict[str, Token] = {}
        self._connections: dict[str, set[ClientConnection]] = {}
        self._bodies = BodyReader()
        self._turns = CallerTurns(REQUESTS_AT_ONCE)
        #: How many requests of each token wait.
        self._waiting: Counter[str] = Counter()
        self._failures = RateLimit(FAILURES_PER_MINUTE)

    def protect(self, app: web.Application, routes: Iterable[Route]) -> None:
        """Add routes to an application; raise ValueError if the need of a route is unknown."""
        for route in routes:
            if route.need not in get_args(Need):
                raise ValueError(f"{route.method} {route.path} needs {route.need!r}, which is not a known need")
            added = app.router.add_route(route.method, route.path, route.handler)
            self._routes[added] = route
        for known in app.router.routes():
            if known not in self._routes:
                raise ValueError(f"{known.method} {known.resource} is in no table of routes")

    def load(self, tokens: Iterable[Token]) -> None:
        """Replace all tokens."""
        self._tokens = {}
        for token in tokens:
            self.put(token)

    def token(self, id_: str) -> Token:
        """Return a token by its id."""
        return self._tokens[id_]

    def now(self) -> float:
        """Return the time by which tokens expire."""
        return self._now()

    def own_defaults(self, token: Token, door: Door) -> OwnDefaults | None:
        """Return what jobs of a session get at a door; None unless it is the owner's own page."""
        return self._own if _is_own_page(token, door) else None

    def put(self, token: Token, keep: asyncio.Task[object] | None = None) -> None:
        """Add or update a token. If it has ended, cut its connections, except for the request `keep`.

        A token that has ended stays so, whatever an answer says that comes late.
        """
        known = self._tokens.get(token.id)
        if token.is_code or (known is not None and known.ended is not None and token.ended is None):
            return
        self._tokens[token.id] = token
        if token.ended is not None:
            for connection in self._connections.pop(token.id, set()):
                connection.cut(keep)

    def cut_expired(self) -> None:
        """Cut the connections of tokens that have expired: a request that is still answered began before."""
        for id_ in [id_ for id_ in self._connections if id_ in self._tokens and not self._is_live(self._tokens[id_])]:
            for connection in self._connections.pop(id_):
                connection.cut()

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request through, or refuse it. Without a token, whatever it asks for gets the same refusal."""
        connection = None if request.transport is None else request.transport.get_protocol()
        if not isinstance(connection, ClientConnection):
            return await self._serve_local(request, handler)
        door = connection.door
        if (request.get_extra_info("sslcontext") is None) != door.is_loopback:
            raise Denied(403, "only the user's own socket and the loopback port are served without TLS")
        route = self._routes.get(request.match_info.route)
        is_open = route is not None and route.need in ("page", "open")
        token = None if route is not None and route.need == "open" else await self._token(request, connection)
        if token is not None and _is_own_page(token, door) and not await connection.is_own():
            token = None  # another user of this machine has got hold of the cookie
        if token is None and not is_open:
            how = HOW_TO_OPEN if door.is_loopback else HOW_TO_LOG_IN
            raise Denied(401, f"no valid token (missing, unknown, revoked or expired): {how}")
        if token is not None:
            request[CALLER] = self._principal(token, door)
        _check_encoding(request)
        is_page = route is not None and route.need == "page"
        how = SAME_PORT if door.is_loopback else HOW_TO_REACH
        check_sender(request, door.scheme, self._is_ours(door), may_navigate=is_page, how=how)
        route = self._route(request)
        if route.need == "local" or (route.need == "home" and not request[CALLER].is_at_home):
            raise Denied(403, "this can be done on the broker's own machine only")
        WORKS_FOR.set(inbox.STRANGER if token is None else request[CALLER].token or token.id)
        if token is None:
            request[ENTRY] = self._entry(request, NO_CALLER, "", _peer(request))
            return await self._do(request, handler, route)
        request[ENTRY] = self._entry(request, f"token {token.id}", token.name, _peer(request))
        for id_ in {token.id, request[CALLER].token or token.id}:
            self._attach(connection, id_)
        task = asyncio.current_task()
        assert task is not None
        connection.tasks.add(task)
        try:
            return await self._do(request, handler, route)
        finally:
            connection.tasks.discard(task)

    def _principal(self, token: Token, door: Door) -> Principal:
        """Return what the holder of a token may do. A session that acts for another token has what that token has."""
        parent = token if token.page_of in (None, PAGE_OF_OWNER) else self._tokens[token.page_of]
        # An admin may make queues, so an admin could make a queue for any program anyway.
        bare = parent.bare or token.scope == "admin"
        limits = self._limits_of(parent)
        return Principal(
            token.scope,
            parent.id,
            token.name,
            parent.queues,
            bare,
            limits,
            session=None if token.page_of is None else token.id,
            own=self.own_defaults(token, door),
        )

    def _is_ours(self, door: Door) -> Callable[[str], bool]:
        return partial(is_one_of, names=self._hosts) if door.hosts is None else door.hosts.__contains__

    @contextlib.asynccontextmanager
    async def _share(self, token: str, route: Route) -> AsyncIterator[None]:
        """Wait for a turn of a token; refuse a request that would wait beside too many others."""
        if not route.waits:
            async with self._turns.of(token):
                yield
            return
        if self._waiting[token] >= WAITING_MAX:
            raise Denied(429, f"{WAITING_MAX} requests of this token wait or follow something already; end some first")
        self._waiting[token] += 1
        try:
            yield
        finally:
            self._waiting[token] -= 1
            if not self._waiting[token]:
                del self._waiting[token]

    async def _serve_local(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[ENTRY] = self._entry(request, f"uid {_own_uid(request)}", OWNER.name, "local")
        request[CALLER] = OWNER
        WORKS_FOR.set(inbox.OWNER)
        _check_encoding(request)
        route = self._route(request)
        if route.need == "worker":
            raise Denied(403, "a worker connects over TCP, with its own token: `grass join`")
        return await self._do(request, handler, route)

    def _route(self, request: web.Request) -> Route:
        if (wrong := request.match_info.http_exception) is not None:
            raise wrong
        route = self._routes.get(request.match_info.route)
        if route is None:
            raise Denied(403, "no token may do this")
        return route

    async def _token(self, request: web.Request, connection: ClientConnection) -> Token | None:
        """Return the token of a request if it is valid now. Neither answer nor timing tells which part was wrong."""
        door = connection.door
        shown = request.headers.getall("Authorization", [])
        if shown:
            kind, _, word = (shown[0] if len(shown) == 1 else "").partition(" ")
            return self._valid(word.strip() if kind.lower() == "bearer" else "", digest_of)
        words = cookies(request, door.cookie)
        if not words or not is_from_own_page(request, door.scheme, self._is_ours(door)):
            return None
        digest = partial(door.digest, uid=await connection.peer_uid())
        pages = {token.id: token for word in words if (token := self._valid(word, digest)) is not None}
        # Two sessions are none: another program on this host may have added the cookie of a session of its own.
        return next(iter(pages.values())) if len(pages) == 1 else None

    def _valid(self, word: str, digest: Callable[[str], bytes]) -> Token | None:
        """Return the token that a secret belongs to, if it is valid now, and so is the token that it acts for."""
        id_, _, secret = word.partition(".")
        token = self._tokens.get(id_)
        same = hmac.compare_digest(digest(secret), b"\0" * 32 if token is None else token.digest)
        if token is None or not same or not self._is_live(token):
            return None
        parent = token if token.page_of in (None, PAGE_OF_OWNER) else self._tokens.get(token.page_of or "")
        return token if parent is not None and self._is_live(parent) else None

    def _is_live(self, token: Token) -> bool:
        return token.ended is None and (token.expires is None or self._now() < token.expires)

    def _limits_of(self, token: Token) -> TokenLimits | None:
        """Return the limits of a token; an admin has none, because an admin can make tokens."""
        if token.scope == "admin":
            return None
        return self._limits if token.priority_max is None else replace(self._limits, priority=token.priority_max)

    def _attach(self, connection: ClientConnection, token: str) -> None:
        """Count a connection for its token, so that it ends with the token."""
        mine = self._connections.setdefault(token, set())
        if connection not in mine:
            if len(mine) >= CONNECTIONS_MAX:
                raise Denied(429, f"this token has {CONNECTIONS_MAX} connections open already; close some first")
            mine.add(connection)
            connection.closing.append(mine.discard)
        connection.end_limits()

    async def _do(self, request: web.Request, handler: Handler, route: Route) -> web.StreamResponse:
        """Run the handler, and write caller and result to the audit."""
        caller, need = request.get(CALLER), route.need

        async def allowed(request: web.Request) -> web.StreamResponse:
            if need != "page" and caller is not None and not caller.is_local and caller.scope not in _SCOPES_FOR[need]:
                raise Denied(403, f"a {caller.scope} token may not do this; this needs the scope {need}")
            token = None if caller is None else caller.token
            most = OPEN_BODY_MAX if caller is None else BODY_MAX if token is None else route.body_max
            request[BODY] = await self._bodies.read(request, most=most, token=token)
            if token is None:
                return await handler(request)
            # After the body: one that comes slowly, or never, takes no turn of the requests beside it.
            async with self._share(token, route):
                return await handler(request)

        connects = need == "worker" and caller is not None and caller.scope == "worker"
        if connects:
            await self._write_audit(request, need, "connects")
        result = "cut"
        try:
            answer = await errors_in_words(request, allowed)
            exit_code = answer.headers.get("Grass-Exit")
            result = f"{answer.status}" if exit_code is None else f"{answer.status} exit {exit_code}"
            return answer
        finally:
            is_own = caller is not None and caller.is_local and request.path in _SUBMISSIONS
            if connects or (request.method == "POST" and not is_own):
                await self._write_audit(request, need, result)

    def _entry(self, request: web.Request, who: str, name: str, peer: str) -> AuditEntry:
        return AuditEntry(
            at=self._now(), who=who, name=name, peer=peer, method=request.method, path=request.path, result=""
        )

    async def _write_audit(self, request: web.Request, need: Need, result: str) -> None:
        missed: int | None = 0
        if need == "open" and result != "200":
            missed = self._failures.take()
        if self.audit is None or missed is None:
            return
        entry = replace(request[ENTRY], at=self._now(), result=result, missed=missed)
        if need in ("read", "submit"):
            self.audit.write(entry)
        else:
            # `shield`: the entry is also written when the request is cancelled.
            await asyncio.shield(asyncio.to_thread(self.audit.write, entry, sync=True))


def owner_app(routes: list[Route]) -> web.Application:
    """Return an application for the owner of the socket only."""
    guard = Guard()
    app = web.Application(middlewares=[errors_in_words, guard.check])
    app.on_response_prepare.append(version_header)
    guard.protect(app, routes)
    return app


def _is_own_page(token: Token, door: Door) -> bool:
    """Tell whether a session is the owner's own page, whose jobs are jobs of this machine: see `Principal.is_at_home`.

    Here alone this is decided. Such a session is taken from processes of the owner and of root only.
    """
    return door.is_loopback and token.page_of == PAGE_OF_OWNER and token.scope == "admin"


def _own_uid(request: web.Request) -> int:
    """Return the uid of the client on the unix socket; refuse other users, and connections of another kind."""
    peer = request.get_extra_info("socket")
    if peer is None or peer.family != socket.AF_UNIX:
        raise Denied(403, "only the user's own socket is served without TLS")
    _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in (0, os.geteuid()):
        raise Denied(403, "this queue belongs to another user")
    return int(uid)


def _peer(request: web.Request) -> str:
    host, port = (request.get_extra_info("peername") or ("gone", 0))[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]} - {""}


def _check_encoding(request: web.Request) -> None:
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Denied(415, "Content-Encoding is not supported; send the body as it is")
