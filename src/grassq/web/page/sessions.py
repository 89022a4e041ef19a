"""The sessions of browsers: links to the page, the exchange of a code for a session, and the end of sessions."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Literal, TypedDict

from aiohttp import web
from msgspec import Meta, Struct

from grassq import __version__
from grassq.broker import tokens
from grassq.broker.documents.texts import timestamp, word_text
from grassq.broker.engine import Engine
from grassq.core.syntax import join_codes
from grassq.core.syntax.addresses import PORT_MAX, Address
from grassq.errors import BadInput, Refused
from grassq.store.base import PAGE_OF_OWNER, Scope, Token
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Guard, Route
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER, OwnDefaults
from grassq.web.access.sender import cookies
from grassq.web.answers.daemon import PageDocument
from grassq.web.listen.admission import ClientConnection
from grassq.web.listen.door import Door
from grassq.web.listen.loopback import LoopbackDoor
from grassq.web.page.codes import CODE_S, SECRET_BYTES, PageCode, PageCodes
from grassq.web.page.files import PageFiles
from grassq.web.responses import Denied, document

#: The end of the name of every session, and the name of a token that a page was given.
NAME_END = ".web"
PAGE_NAME = "page"
#: The longest directory that a page is told.
CWD_MAX = 4096
SCOPES: tuple[Scope, ...] = ("read", "submit", "admin")


class LinkBody(requests.Body, kw_only=True):
    """A link to the page that is asked for."""

    #: What the page may do; by default what the caller may.
    scope: Literal["read", "submit", "admin"] | None = None
    #: Only processes of the owner on this machine may use the code: it is opened in a browser, and other users see the
    #: link in the list of processes.
    own: bool = False
    #: The port on loopback; by default the one that is open, or a free one.
    port: int | None = None
    #: The directory of the caller, which the page offers for jobs; only kept for a caller on this machine.
    cwd: Annotated[str, Meta(max_length=CWD_MAX)] | None = None


class EndAllBody(requests.Body, kw_only=True):
    """The end of all sessions that the caller may end."""


class SessionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A code, as it is in a link, or as `grass token create` prints it."""

    code: str


class LinkDocument(TypedDict):
    """A one-time code, and where it can be used: `http://127.0.0.1:PORT/#code=CODE`, or `https://ADDRESS/#code=CODE`."""

    code: str
    #: The port on loopback; null for a caller elsewhere.
    port: int | None
    #: The addresses of the TLS port.
    addresses: list[str]
    scope: Scope
    #: How long the code can be used.
    expires_s: float
    #: Whether the page is part of this installation.
    is_built: bool


class SessionDocument(TypedDict):
    """The caller, and what it may do."""

    scope: Scope
    name: str
    #: The version of the daemon.
    version: str
    #: The directory of a job that names none; null for a caller whose jobs are not jobs of this machine.
    cwd: str | None
    #: The directory in which `grass web` was typed; only the answer to its code says this, and only on this machine.
    opened_in: str | None
    #: The id of the session; null for a caller with a token of its own.
    session: str | None
    expires: str | None


class EndDocument(TypedDict):
    """The session that has ended."""

    session: str


class EndAllDocument(TypedDict):
    """The sessions that have ended."""

    ended: list[str]


class Sessions:
    """The handlers."""

    def __init__(self, engine: Engine, guard: Guard, files: PageFiles) -> None:
        self._files = files
        self._engine = engine
        self._guard = guard
        self._codes = PageCodes(guard.now)
        #: The loopback door; set when the daemon serves its socket.
        self.door: LoopbackDoor | None = None
        #: The ports of doors beside it.
        self.extra_ports: set[int] = set()
        #: The addresses of the TLS port; set when the broker listens on TCP.
        self.addresses: list[Address] = []

    def routes(self) -> list[Route]:
        """Return the routes."""

        def about(summary: str, answer: object, body: object = None) -> Description:
            return Description("web page", summary, answer, body=body)

        link = about("Make a one-time code for a link to the page", LinkDocument, LinkBody)
        begin = about("Exchange a code for a session, in a cookie", SessionDocument, SessionBody)
        who = about("What the caller is and may do", SessionDocument)
        end = about("Log out: end the session that this request is sent with", EndDocument)
        end_all = about(
            "End all sessions of pages; a read or submit token ends its own sessions only", EndAllDocument, EndAllBody
        )
        return [
            Route("POST", "/v1/session/link", self.link, "read", about=link),
            Route("POST", "/v1/session", self.begin, "open", about=begin),
            Route("GET", "/v1/session", self.about, "read", about=who),
            Route("POST", "/v1/session/end", self.end, "read", about=end),
            Route("POST", "/v1/session/end-all", self.end_all, "read", about=end_all),
        ]

    def describe(self) -> PageDocument | None:
        """Return what `grass doctor` shows of the page."""
        return None if self.door is None else self.door.describe(is_built=self._files.is_built)

    async def link(self, request: web.Request) -> web.Response:
        """Make a code for `http://127.0.0.1:PORT/#code=CODE`, or `https://ADDRESS/#code=CODE` at the TLS port.

        A browser never sends what is behind `#`. For the owner the loopback door is opened.
        """
        body, caller = requests.decode(request[BODY], LinkBody), request[CALLER]
        scope = body.scope or caller.scope
        if caller.session is not None:
            raise Refused("a page cannot open another page; `grass web` on the command line does")
        if SCOPES.index(scope) > SCOPES.index(caller.scope):
            raise Denied(403, f"a {caller.scope} token may not open a page with the scope {scope}")
        if body.port is not None and (not caller.is_local or not 0 < body.port <= PORT_MAX):
            raise BadInput(f"--port is a number from 1 to {PORT_MAX}, for the page on this machine")
        if caller.is_local:
            if self.door is None:
                raise Refused("this daemon serves no page")
            if body.port not in self.extra_ports:
                await self.door.open(body.port)
        code = self._codes.make(
            scope=scope,
            page_of=PAGE_OF_OWNER if caller.is_local else caller.token or "",
            name=_name(caller.name),
            is_own=body.own,
            cwd=body.cwd if caller.is_local else None,
        )
        request[ENTRY].about = f"page code {code.partition('.')[0]} {scope}"
        return document(
            {
                "code": code,
                "port": self._port(body.port) if caller.is_local else None,
                "addresses": [str(address) for address in self.addresses],
                "scope": scope,
                "expires_s": CODE_S,
                "is_built": self._files.is_built,
            }
        )

    def _port(self, asked: int | None) -> int | None:
        return asked if asked in self.extra_ports or self.door is None else self.door.port

    async def begin(self, request: web.Request) -> web.Response:
        """Exchange a code for a session, once, and set the cookie."""
        connection = connection_of(request)
        body = requests.decode(request[BODY], SessionBody)
        if body.code.startswith(join_codes.PREFIX):
            code = await self._redeem(body.code)
        else:
            code = self._codes.take(body.code, connection.door, is_own=await connection.is_own())
        secret = secrets.token_urlsafe(SECRET_BYTES)
        session = Token(
            id=secrets.token_hex(4),
            digest=connection.door.digest(secret, await connection.peer_uid()),
            scope=code.scope,
            name=code.name,
            created=0.0,
            page_of=code.page_of,
        )
        session = await self._engine.change(lambda batch: tokens.open_session(batch, session))
        self._guard.put(session)
        note = request[ENTRY]
        note.who, note.name, note.about = f"token {session.id}", session.name, f"page {session.scope}"
        own = self._guard.own_defaults(session, connection.door) if await connection.is_own() else None
        answer = document(_about(session.scope, session.name, own, session) | {"opened_in": code.cwd})
        _set_cookie(answer, connection.door, f"{session.id}.{secret}", tokens.SESSION_S)
        return answer

    async def _redeem(self, text: str) -> PageCode:
        """Exchange a code of `grass token create` for a token that only the new session acts for."""
        code = join_codes.decode(text)
        asked = tokens.Redemption(
            code=code.id,
            shown=tokens.digest_of(code.secret),
            digest=tokens.digest_of(secrets.token_urlsafe(SECRET_BYTES)),
            kind="login",
            name=PAGE_NAME,
            new_id=secrets.token_hex(4),
        )
        token = (await self._engine.change(lambda batch: tokens.redeem(batch, asked))).token
        self._guard.put(token)
        return PageCode(scope=token.scope, page_of=token.id, name=_name(token.name), is_own=False)

    async def about(self, request: web.Request) -> web.Response:
        """Answer with what the caller is, and let a session that is used last longer."""
        caller = request[CALLER]
        if caller.session is None:
            return document(_about(caller.scope, caller.name))
        session = self._guard.token(caller.session)
        if session.expires is not None and session.expires - self._guard.now() < tokens.SESSION_S - tokens.RENEW_S:
            id_ = session.id
            session = await self._engine.change(lambda batch: tokens.renew_session(batch, id_))
            self._guard.put(session)
            answer = document(_about(session.scope, session.name, caller.own, session))
            return _with_cookie_again(request, answer, id_)
        return document(_about(session.scope, session.name, caller.own, session))

    async def end(self, request: web.Request) -> web.Response:
        """End the session that this request was sent with, and cut its other connections; its jobs go on."""
        id_ = request[CALLER].session
        if id_ is None:
            raise BadInput("this request has no session of a page; `grass logout` ends a login")
        session = await self._engine.change(lambda batch: tokens.give_up(batch, id_))
        request[ENTRY].about = f"token {id_} {session.name}"
        answer = document({"session": id_})
        answer.force_close()
        _set_cookie(answer, connection_of(request).door, "", 0)
        self._guard.put(session, keep=asyncio.current_task())
        return answer

    async def end_all(self, request: web.Request) -> web.Response:
        """End every session of a page; those of other tokens only for the owner and an admin."""
        requests.decode(request[BODY], EndAllBody)
        caller = request[CALLER]
        whose = None if caller.scope == "admin" else caller.token
        self._codes.forget(whose)
        ended = await self._engine.change(lambda batch: tokens.end_sessions(batch, whose))
        request[ENTRY].about = f"{len(ended)} pages"
        for session in ended:
            self._guard.put(session, keep=asyncio.current_task())
        return document({"ended": [session.id for session in ended]})


def connection_of(request: web.Request) -> ClientConnection:
    """Return the connection of a browser; raise BadInput on the unix socket."""
    protocol = None if request.transport is None else request.transport.get_protocol()
    if not isinstance(protocol, ClientConnection):
        raise BadInput("a session is for a browser; the owner of this daemon needs none here")
    return protocol


def _with_cookie_again(request: web.Request, answer: web.Response, session: str) -> web.Response:
    """Return an answer that lets the browser keep the cookie of a session as long as the session lasts."""
    door = connection_of(request).door
    mine = [value for value in cookies(request, door.cookie) if value.startswith(f"{session}.")]
    for value in mine[:1]:
        _set_cookie(answer, door, value, tokens.SESSION_S)
    return answer


def _set_cookie(answer: web.Response, door: Door, value: str, seconds: float) -> None:
    answer.set_cookie(
        door.cookie,
        value,
        max_age=int(seconds),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=door.scheme == "https",
    )


def _about(scope: Scope, name: str, own: OwnDefaults | None = None, session: Token | None = None) -> SessionDocument:
    return {
        "scope": scope,
        "name": name,
        "version": __version__,
        "cwd": None if own is None else word_text(own.cwd),
        "opened_in": None,
        "session": None if session is None else session.id,
        "expires": None if session is None else timestamp(session.expires),
    }


def _name(holder: str) -> str:
    """Return the name of a session."""
    return holder[: tokens.NAME_MAX - len(NAME_END)] + NAME_END
