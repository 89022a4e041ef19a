"""A worker's link to a broker on another machine: dialled out, one WebSocket over TLS, tried for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from yarl import URL

from grassq import atomic_files
from grassq.core import protocol
from grassq.core.endpoint import Endpoint
from grassq.core.messages import StorePosition, WorkerMessage
from grassq.core.protocol import PROTOCOL, LinkTimes, Welcome
from grassq.core.syntax.addresses import Address
from grassq.errors import GrassError
from grassq.link.connection import ConnectionEnded
from grassq.worker.broker_session import CLOSE_S, BrokerSession, Host, TurnedAway

log = logging.getLogger(__name__)

FILE_NAME = "link.json"
FILE_MAX = 64 << 10
#: How often the newest store position is written down; what is lost of it costs a restored broker nothing but doubt.
POSITION_EVERY_S = 5.0
WORDS_MAX = 500

#: What a refusal means when the broker gave no words with it.
_WORDS = {
    401: "the broker does not know this worker: it was removed or its token revoked; `grass join --anew CODE`",
    403: "the broker does not let this worker in; `grass join --anew CODE`",
    404: "what answers there is no broker of Grass, or a much older one",
}


class BrokerMemory(Struct, frozen=True):
    """What a worker must know when it dials again: its ticket, and the newest store position it has heard of."""

    #: The token the ticket belongs to: who joins again begins without one.
    token: str = ""
    ticket: str = ""
    position: StorePosition | None = field(default=None, name="moment")


class BrokerLink:
    """Keeps a worker in touch with its broker."""

    def __init__(
        self,
        place: str,
        store_id: str,
        way: Callable[[], Endpoint],
        *,
        times: LinkTimes | None = None,
        boottime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`way` is asked at every try: a new token or address is used without a restart."""
        self._place = place
        self._store_id = store_id
        self._way = way
        self._times = times or LinkTimes()
        self._boottime = boottime
        self._chance = chance
        self._memory = load(place)
        self._written_at = 0.0
        self._talk: BrokerSession | None = None
        self._addresses: tuple[Address, ...] = ()
        self._address: Address | None = None
        self._trouble: str | None = "no connection has been tried yet"
        self._refused = False

    @property
    def online(self) -> bool:
        """Whether the broker has welcomed this worker and is in touch."""
        return self._talk is not None and self._talk.welcomed

    def send(self, message: WorkerMessage) -> None:
        """Say something to the broker; out of touch it is dropped: reports repeat, and each connection says hello."""
        if self._talk is not None:
            self._talk.send(message)

    def describe(self) -> dict[str, object]:
        """What `doctor` wants to know of this link."""
        return {
            "addresses": [str(address) for address in self._addresses],
            "online": self.online,
            "address": str(self._address) if self.online else None,
            "refused": self._refused,
            "trouble": None if self.online else self._trouble,
        }

    async def run(self, host: Host) -> None:
        """Dial, talk, and dial again, until cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            self._refused = False
            if await self._one_round(host) and time.monotonic() - began >= self._times.stable_s:
                failures = 0
            await asyncio.sleep(self._delay_s(failures))
            failures += 1

    async def _one_round(self, host: Host) -> bool:
        """Every address in turn, until a broker has welcomed us at one; False when none did."""
        try:
            way = self._way()
        except GrassError as error:
            self._refused = True
            self._say(logging.ERROR, "broker_unknown", str(error))
            return False
        self._addresses = way.addresses
        # The one that was lost comes last: it may take connections and be frozen, while another has taken over.
        for address in sorted(way.addresses, key=lambda each: each == self._address):
            if await self._try(host, way, address):
                return True
        return False

    def _delay_s(self, failures: int) -> float:
        """How long to wait before the next try: twice as long each time, and never all workers at once."""
        if self._refused:
            return self._times.refused_s
        longest = min(self._times.retry_max_s, self._times.retry_min_s * 2.0 ** min(failures, 32))
        return longest * (0.5 + 0.5 * self._chance())

    async def _try(self, host: Host, way: Endpoint, address: Address) -> bool:
        """One connection, from dialling to its end; True when the broker had welcomed us there."""
        self._address = address
        self._talk, welcomed = None, False
        try:
            await self._connect(host, way, address)
        except TurnedAway as error:
            self._refused = True
            self._say(logging.ERROR, "broker_refuses", f"{address}: {error}")
        except (ConnectionEnded, aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            welcomed = self._talk is not None and self._talk.met
            why = str(error) or "it does not answer in time"
            self._say(logging.WARNING, "broker_out_of_touch" if welcomed else "broker_not_reached", f"{address}: {why}")
        finally:
            self._talk = None
        return welcomed

    def _say(self, level: int, event: str, text: str) -> None:
        """Into the log once, not at every try."""
        if text != self._trouble:
            log.log(level, "%s %s", event, text)
        self._trouble = text

    async def _connect(self, host: Host, way: Endpoint, address: Address) -> None:
        connector = aiohttp.TCPConnector(
            ssl=aiohttp.Fingerprint(way.fingerprint), force_close=True, socket_factory=self._socket
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._times.dial_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            async with asyncio.timeout(self._times.dial_s):
                ws = await self._dial(session, way, address)
            self._talk = BrokerSession(
                ws,
                host,
                self._memory.position,
                self._welcomed,
                self._remember,
                times=self._times,
                boottime=self._boottime,
            )
            await self._talk.run()

    async def _dial(
        self, session: aiohttp.ClientSession, way: Endpoint, address: Address
    ) -> aiohttp.ClientWebSocketResponse:
        known = self._memory if self._memory.token == way.token_id else BrokerMemory(position=self._memory.position)
        self._memory = replace(known, token=way.token_id)
        position = known.position
        headers = {
            "Host": "grass",
            "Authorization": f"Bearer {way.token}",
            protocol.PROTOCOL_HEADER: str(PROTOCOL),
            protocol.TICKET_HEADER: known.ticket,
            protocol.SEEN_HEADER: f"{position.incarnation} {position.commit}" if position else "",
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
                "another certificate is shown there than when this worker joined; if the broker has a new one,"
                " `grass join --anew CODE`"
            ) from None

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, _ = info
        sock = socket.socket(family, kind, protocol)
        # What was sent and is not acknowledged for so long ends the connection, whatever buffers still take.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(self._times.silence_s * 1000)))
        return sock

    async def _welcomed(self, welcome: Welcome) -> bool:
        """The broker took us: put the ticket on disk; False if the disk refused, and the old one stays good."""
        if welcome.store_id != self._store_id:
            raise TurnedAway(
                f"the broker there keeps another store ({welcome.store_id}) than this worker joined"
                f" ({self._store_id}); `grass join --anew CODE`"
            )
        log.info("broker_in_touch address=%s", self._address)
        self._trouble = None
        memory = replace(self._memory, ticket=welcome.ticket, position=welcome.position)
        try:
            await asyncio.to_thread(save, self._place, memory, sync=True)
        except OSError as error:
            log.error("ticket_not_kept error=%s", error)
            return False
        self._memory = memory
        return True

    def _remember(self, position: StorePosition) -> None:
        self._memory = replace(self._memory, position=position)
        if time.monotonic() - self._written_at < POSITION_EVERY_S:
            return
        self._written_at = time.monotonic()
        try:
            save(self._place, self._memory, sync=False)
        except OSError as error:
            log.error("position_not_kept error=%s", error)


def _refusal(status: int, headers: dict[str, str]) -> Exception:
    """What an answer that is no WebSocket means: a refusal in words, or a broker in trouble that is asked again."""
    given = next((value for name, value in headers.items() if name.lower() == protocol.ERROR_HEADER.lower()), "")
    words = given[:WORDS_MAX] or _WORDS.get(status, f"the broker answers with HTTP status {status}")
    return TurnedAway(words) if 400 <= status < 500 else ConnectionEnded(words)


def load(place: str) -> BrokerMemory:
    """What was written down; nothing when there is no such file, or a damaged one."""
    path = os.path.join(place, FILE_NAME)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(FILE_MAX), type=BrokerMemory)
    except FileNotFoundError:
        return BrokerMemory()
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        log.error("link_file_unreadable path=%s error=%s", path, error)
        return BrokerMemory()


def save(place: str, memory: BrokerMemory, *, sync: bool) -> None:
    """Write it aside and rename it, readable by its owner alone; with `sync` it survives a power cut."""
    atomic_files.write_aside(place, FILE_NAME, msgspec.json.encode(memory), sync)
