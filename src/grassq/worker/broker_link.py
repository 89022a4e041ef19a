"""A worker's link to a broker on another machine: one WebSocket over TLS, dialled by the worker, retried for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from yarl import URL

from grassq import atomic_files
from grassq.core import protocol
from grassq.core.messages import StorePosition, WorkerMessage
from grassq.core.protocol import PROTOCOL, LinkTimes, Welcome
from grassq.core.syntax.addresses import Address
from grassq.errors import GrassError
from grassq.link.connection import ConnectionEnded
from grassq.pins import Shown
from grassq.worker.broker_session import CLOSE_S, BrokerSession, Host, TurnedAway

log = logging.getLogger(__name__)

FILE_NAME = "link.json"
FILE_MAX = 64 << 10
#: The newest store position is saved this often. A lost position only makes it harder to notice a restored broker.
POSITION_EVERY_S = 5.0
WORDS_MAX = 500

#: The meaning of a refusal without a message.
_WORDS = {
    401: "the broker does not know this worker: removed, or its token revoked; `grass join --again` with a new code",
    403: "the broker refuses this worker; `grass join --again` with a new code",
    404: "the server at this address is not a Grass broker, or is a much older one",
}


class Endpoint(Struct, frozen=True):
    """How to reach a broker: its addresses, its pin and a token."""

    addresses: tuple[Address, ...]
    fingerprint: bytes
    token: str

    @property
    def token_id(self) -> str:
        """The part of the token that is no secret."""
        return self.token.partition(".")[0]


class _Pinned(aiohttp.Fingerprint):
    """Admits a broker by its public key, or by its certificate if the pin is of an earlier release."""

    def check(self, transport: asyncio.Transport) -> None:
        """Raise ServerFingerprintMismatch if another broker answers; nothing has been sent yet."""
        if (tls := transport.get_extra_info("ssl_object")) is None:
            return
        shown = Shown(tls.getpeercert(binary_form=True) or b"")
        if not shown.is_pinned_by(self.fingerprint):
            host, port, *_ = transport.get_extra_info("peername")
            raise aiohttp.ServerFingerprintMismatch(self.fingerprint, shown.key, host, port)


class BrokerMemory(Struct, frozen=True):
    """What a worker needs to dial again: its ticket, and the newest store position it has received."""

    #: The token that the ticket belongs to. A worker that joins again has a new token and no ticket.
    token: str = ""
    ticket: str = ""
    position: StorePosition | None = field(default=None, name="moment")


class BrokerLink:
    """Keeps a worker connected to its broker."""

    def __init__(
        self,
        home: str,
        store_id: str,
        endpoint: Callable[[], Endpoint],
        *,
        times: LinkTimes | None = None,
    ) -> None:
        """`endpoint` is called at every try: a new token or address is used without a restart."""
        self._home = home
        self._store_id = store_id
        self._endpoint = endpoint
        self._times = times or LinkTimes()
        self._memory = load(home)
        self._written_at = 0.0
        self._session: BrokerSession | None = None
        self._addresses: tuple[Address, ...] = ()
        self._address: Address | None = None
        self._trouble: str | None = "no connection has been tried yet"
        self._refused = False

    @property
    def online(self) -> bool:
        """Whether the broker has welcomed this worker and the connection lasts."""
        return self._session is not None and self._session.welcomed

    def send(self, message: WorkerMessage) -> None:
        """Send a message, or drop it without a connection: reports repeat, and a hello begins each connection."""
        if self._session is not None:
            self._session.send(message)

    def describe(self) -> dict[str, object]:
        """Return the state of this link for `doctor`."""
        return {
            "addresses": [str(address) for address in self._addresses],
            "online": self.online,
            "address": str(self._address) if self.online else None,
            "refused": self._refused,
            "trouble": None if self.online else self._trouble,
        }

    async def run(self, host: Host) -> None:
        """Connect, serve the connection until it ends, and connect again, until cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            self._refused = False
            if await self._one_round(host) and time.monotonic() - began >= self._times.stable_s:
                failures = 0
            await asyncio.sleep(self._delay_s(failures))
            failures += 1

    async def _one_round(self, host: Host) -> bool:
        """Try each address until a broker welcomes this worker; return whether one did."""
        try:
            endpoint = self._endpoint()
        except GrassError as error:
            self._refused = True
            self._say(logging.ERROR, "broker_unknown", str(error))
            return False
        self._addresses = endpoint.addresses
        # The lost address comes last: it may accept connections and never answer, while another broker has taken over.
        for address in sorted(endpoint.addresses, key=lambda each: each == self._address):
            if await self._try(host, endpoint, address):
                return True
        return False

    def _delay_s(self, failures: int) -> float:
        """Return the seconds until the next try: doubled each time, and random, so that workers do not dial at once."""
        if self._refused:
            return self._times.refused_s
        longest = min(self._times.retry_max_s, self._times.retry_min_s * 2.0 ** min(failures, 32))
        return random.uniform(0.5, 1.0) * longest

    async def _try(self, host: Host, endpoint: Endpoint, address: Address) -> bool:
        """Serve one connection from dialling to its end; return whether the broker welcomed this worker."""
        self._address = address
        self._session, welcomed = None, False
        try:
            await self._connect(host, endpoint, address)
        except TurnedAway as error:
            self._refused = True
            self._say(logging.ERROR, "broker_refuses", f"{address}: {error}")
        except (ConnectionEnded, aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            welcomed = self._session is not None and self._session.met
            why = str(error) or "no answer in time"
            # A refusal at another address says what to do: an address without an answer does not replace it.
            if welcomed or not self._refused:
                event = "broker_out_of_touch" if welcomed else "broker_not_reached"
                self._say(logging.WARNING, event, f"{address}: {why}")
        finally:
            self._session = None
        return welcomed

    def _say(self, level: int, event: str, text: str) -> None:
        """Log a failure, but not the same failure at every try."""
        if text != self._trouble:
            log.log(level, "%s %s", event, text)
        self._trouble = text

    async def _connect(self, host: Host, endpoint: Endpoint, address: Address) -> None:
        connector = aiohttp.TCPConnector(
            ssl=_Pinned(endpoint.fingerprint), force_close=True, socket_factory=self._socket
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._times.dial_s)
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(
                aiohttp.ClientSession(connector=connector, timeout=timeout, middlewares=(_closed_by(stack),))
            )
            async with asyncio.timeout(self._times.dial_s):
                ws = await self._dial(session, endpoint, address)
            seen = self._memory.position
            self._session = BrokerSession(ws, host, seen, self._welcomed, self._remember, times=self._times)
            await self._session.run()

    async def _dial(
        self, session: aiohttp.ClientSession, endpoint: Endpoint, address: Address
    ) -> aiohttp.ClientWebSocketResponse:
        position = self._memory.position
        if self._memory.token != endpoint.token_id:
            self._memory = BrokerMemory(endpoint.token_id, position=position)
        headers = {
            "Host": "grass",
            "Authorization": f"Bearer {endpoint.token}",
            protocol.PROTOCOL_HEADER: str(PROTOCOL),
            protocol.TICKET_HEADER: self._memory.ticket,
            protocol.SEEN_HEADER: "" if position is None else protocol.position_text(position),
        }
        url = URL.build(scheme="https", host=address.host, port=address.port, path=protocol.PATH)
        try:
            return await session.ws_connect(
                url,
                headers=headers,
                max_msg_size=protocol.FRAME_MAX + 64,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            )
        except aiohttp.WSServerHandshakeError as error:
            raise _refusal(error.status, dict(error.headers or {})) from None
        except aiohttp.ServerFingerprintMismatch:
            raise TurnedAway(
                "the key is not the one of the broker that this worker joined; if the broker's owner says that it has a"
                " new one, `grass join` with a new code from there: this daemon then goes on as the same worker"
            ) from None

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, _ = info
        sock = socket.socket(family, kind, protocol)
        # Data that is not acknowledged for this long ends the connection, even if the socket buffers take more.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(self._times.silence_s * 1000)))
        return sock

    async def _welcomed(self, welcome: Welcome) -> bool:
        """Save the ticket of a welcome; return False if the disk refused, and the old ticket stays valid."""
        if welcome.store_id != self._store_id:
            raise TurnedAway(
                f"this broker has the store {welcome.store_id}, but this worker joined the store {self._store_id};"
                " `grass join --again` with a new code"
            )
        log.info("broker_in_touch address=%s", self._address)
        self._trouble = None
        memory = replace(self._memory, ticket=welcome.ticket, position=welcome.position)
        try:
            await asyncio.to_thread(save, self._home, memory, sync=True)
        except OSError as error:
            log.error("ticket_not_kept error=%s", error)
            return False
        self._memory = memory
        return True

    def _remember(self, position: StorePosition) -> None:
        if position.is_before(self._memory.position):
            # The position before a start waits behind other frames, and heartbeats overtake it.
            return
        self._memory = replace(self._memory, position=position)
        if time.monotonic() - self._written_at < POSITION_EVERY_S:
            return
        self._written_at = time.monotonic()
        try:
            save(self._home, self._memory, sync=False)
        except OSError as error:
            log.error("position_not_kept error=%s", error)


def _closed_by(stack: AsyncExitStack) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that lets a stack close the connection of each answer.

    A WebSocket closes its connection only at the end of an orderly close, which may be interrupted or never begin.
    """

    async def middleware(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        response = await handler(request)
        stack.callback(response.close)
        return response

    return middleware


def _refusal(status: int, headers: dict[str, str]) -> Exception:
    """Return the error for an answer that is no WebSocket: TurnedAway for a refusal, else ConnectionEnded to retry."""
    given = next((value for name, value in headers.items() if name.lower() == protocol.ERROR_HEADER.lower()), "")
    words = given[:WORDS_MAX] or _WORDS.get(status, f"the broker answers with HTTP status {status}")
    return TurnedAway(words) if 400 <= status < 500 else ConnectionEnded(words)


def load(home: str) -> BrokerMemory:
    """Return the saved memory; an empty one if the file is missing or damaged."""
    path = os.path.join(home, FILE_NAME)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(FILE_MAX), type=BrokerMemory)
    except FileNotFoundError:
        return BrokerMemory()
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        log.error("link_file_unreadable path=%s error=%s", path, error)
        return BrokerMemory()


def save(home: str, memory: BrokerMemory, *, sync: bool) -> None:
    """Write the memory atomically, readable by its owner only; with `sync`, the file survives a power cut."""
    atomic_files.write_aside(home, FILE_NAME, msgspec.json.encode(memory), sync)
