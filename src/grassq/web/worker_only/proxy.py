"""The local socket of a machine that only works: what concerns the machine is done here, the rest its broker does."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from yarl import URL

from grassq.core.endpoint import Endpoint
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput, GrassError, Refused, Unreachable
from grassq.web import requests
from grassq.web.listen.abort import cut
from grassq.web.responses import Handler, enqueued, errors_in_words, version_header

log = logging.getLogger(__name__)

BODY_MAX = 64 << 20
CONNECT_S = 3.0
#: How long a broker is looked for at its addresses: one that stands by takes over within seconds.
SEEK_S = 10.0
SEEK_PAUSE_S = 0.5
#: How long an answer may take to begin; a long poll takes 30 s.
ANSWER_S = 75.0
#: Connections to the broker at a time; more requests wait for their turn.
CONNECTIONS_MAX = 256
#: How often it is looked whether anybody still listens while nothing comes.
LISTENS_S = 1.0
#: A broker's machine that vanished is noticed after so long, also while nothing is said.
VANISHED_S = 30

NO_LOGIN = "this machine is joined as a worker; `grass login CODE` lets you use the queue from here"
ENQUEUE = "/v1/enqueue"
CREATE_QUEUE = "/v1/create-queue"
DELETE_QUEUE = "/v1/delete-queue"
#: What a sender says of itself on its own machine means nothing on another, and may be secret.
OWN_FIELDS = ("env", "cwd", "umask")
_STRIPPED = (ENQUEUE, "/v1/submit", "/v1/submit-many", CREATE_QUEUE)

#: Method and path to who answers here. Of create-queue and delete-queue only what names no worker.
Local = Mapping[tuple[str, str], Handler]


class Forwarder:
    """Answers what is local, and passes everything else on to the broker with this user's login."""

    def __init__(self, way: Callable[[], Endpoint | None], local: Local, *, seek_s: float = SEEK_S) -> None:
        """`way` is asked at every request, so that a login counts from the moment it is made; None without one."""
        self._way = way
        self._local = local
        self._seek_s = seek_s
        self._session: aiohttp.ClientSession | None = None
        self._pin: tuple[bytes, aiohttp.Fingerprint] | None = None
        self._last: Address | None = None

    def app(self, middlewares: Sequence[Middleware] = ()) -> web.Application:
        """The application; the first of its middlewares must let in nobody but the owner of the socket."""
        app = web.Application(client_max_size=BODY_MAX, middlewares=[*middlewares, errors_in_words])
        app.on_response_prepare.append(version_header)
        app.cleanup_ctx.append(self._open)
        app.router.add_route("*", "/{path:.*}", self._serve)
        return app

    async def _open(self, app: web.Application) -> Any:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, socket_factory=_socket)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            yield
        self._session = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        handler = self._local.get((request.method, request.path))
        raw = await request.read()
        if handler is not None and not _names_worker(request.path, raw):
            return await handler(request)
        try:
            answer = await self._ask(request, _stripped(raw) if request.path in _STRIPPED else raw)
        except GrassError as error:
            if request.path == ENQUEUE:
                return enqueued(error.exit_code, "", f"grass: {error}\n").response()
            raise
        async with answer:
            return await _pass_on(request, answer)

    async def _ask(self, request: web.Request, body: bytes) -> aiohttp.ClientResponse:
        """The broker's answer, from whichever address gives one; asked again while it may be changing places.

        Asking twice is safe: every changing request carries a key.
        """
        way = self._way()
        if way is None:
            raise Refused(NO_LOGIN)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seek_s
        why = "no address is known"
        while True:
            # The one that answered last comes first.
            for address in sorted(way.addresses, key=lambda each: each != self._last):
                try:
                    answer = await self._ask_at(way, address, request, body)
                    self._last = address
                    return answer
                except (aiohttp.ClientError, OSError, ValueError) as error:
                    why = f"{address}: {error or type(error).__name__}"
            if loop.time() >= deadline:
                raise Unreachable(f"the broker is not reached ({why}); jobs that run here run on")
            await asyncio.sleep(SEEK_PAUSE_S)

    async def _ask_at(
        self, way: Endpoint, address: Address, request: web.Request, body: bytes
    ) -> aiohttp.ClientResponse:
        assert self._session is not None
        if self._pin is None or self._pin[0] != way.fingerprint:
            self._pin = way.fingerprint, aiohttp.Fingerprint(way.fingerprint)
        url = URL.build(scheme="https", host=address.host, port=address.port).join(request.rel_url)
        headers = {"Host": "grass", "Authorization": f"Bearer {way.token}", "Accept-Encoding": "identity"}
        if body:
            headers["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._session.request(
                    request.method, url, data=body or None, headers=headers, ssl=self._pin[1], allow_redirects=False
                )
        except aiohttp.ServerFingerprintMismatch:
            raise Refused(
                f"another certificate is shown at {address} than when you logged in; if the broker has a new one,"
                " `grass login CODE` again"
            ) from None
        except aiohttp.ClientError:
            raise
        except TimeoutError:
            raise Unreachable(f"the broker at {address} took the request and has not answered in time") from None


def _names_worker(path: str, raw: bytes) -> bool:
    """Whether a queue is to be made or deleted on a worker that was named."""
    if path == DELETE_QUEUE:
        return bool(_object(raw).get("worker"))
    if path != CREATE_QUEUE:
        return False
    words = _object(raw).get("words")
    if not isinstance(words, list):
        return False
    try:
        return enqueue_syntax.split_create_queue([requests.word_bytes(word) for word in words]).worker is not None
    except BadInput:
        return False  # said in words by who answers here


def _stripped(raw: bytes) -> bytes:
    """A request without what its sender has of its own: environment, directory and umask stay on this machine."""
    document = _object(raw)
    for field in OWN_FIELDS:
        document.pop(field, None)
    return msgspec.json.encode(document)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the request makes no sense: {error}") from None


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {
        name: value
        for name, value in answer.headers.items()
        # The version is that of the daemon one talks to: this one.
        if name.lower().startswith("grass-") and name.lower() != "grass-version"
    }
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_type = answer.content_type
    response.content_length = answer.content_length
    await response.prepare(request)
    try:
        while part := await _next_part(request, answer):
            await response.write(part)
        await response.write_eof()
    except (aiohttp.ClientError, OSError):
        # An answer without its end says that it is not whole; the client asks again.
        cut(request.transport)
    return response


async def _next_part(request: web.Request, answer: aiohttp.ClientResponse) -> bytes:
    """The next bytes of an answer; nothing at its end, or when nobody listens any more."""
    reading = asyncio.ensure_future(answer.content.readany())
    try:
        while not reading.done():
            await asyncio.wait({reading}, timeout=LISTENS_S)
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("nobody listens any more")
        return reading.result()
    finally:
        reading.cancel()


def _socket(info: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = info
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, VANISHED_S // 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, VANISHED_S // 6)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_S * 1000)
    return sock
