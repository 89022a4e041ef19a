"""One open page: what it wants, what it was sent, and at most one frame that it has not taken yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from aiohttp import WSMsgType, web
from msgspec import Struct

from grassq.web.access.principal import Principal
from grassq.web.listen.abort import cut
from grassq.web.live.log_view import LogView
from grassq.web.live.messages import Wish

#: Bytes of the words with which a connection is closed; a close frame has no room for more.
CLOSE_BYTES_MAX = 120
#: How long a page may take the words with which its connection is closed.
CLOSE_S = 1.0

BEAT = b'{"beat":true}'
NO_JOB = b"null"


class SentJob(Struct, frozen=True):
    """What a page was sent of a job: a hash of the document, and whether the job had ended."""

    digest: int
    is_final: bool


class EncodedJob(Struct, frozen=True):
    """A job for all pages: encoded once, without what differs between pages."""

    id: int
    raw: bytes
    #: The token that the job was submitted with; None for the owner.
    by: str | None
    is_final: bool

    @property
    def sent(self) -> SentJob:
        """What a page has that was told this."""
        return SentJob(hash((self.raw, self.by)), self.is_final)

    def told(self, caller: Principal) -> bytes:
        """Return the job as a member of a frame for a caller; a job that does not exist is null."""
        if self.raw == NO_JOB:
            return b'"%d":%b' % (self.id, NO_JOB)
        may_change = b"true" if caller.may_change(self.by) else b"false"
        return b'"%d":%b,"may_change":%b}' % (self.id, self.raw[:-1], may_change)


#: What a page has of a job is not known: it has it from an earlier connection.
_UNKNOWN = SentJob(0, False)


class OpenPage:
    """One WebSocket. The hub fills `frame` only while the page `is_ready`."""

    def __init__(
        self,
        ws: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        freed: Callable[[], None],
        caller: Principal,
    ) -> None:
        """`freed` is called when a page that was too slow for a frame has taken the last one."""
        self._ws = ws
        self._freed = freed
        self.caller = caller
        #: The page was not ready when there were frames.
        self.was_missed = False
        self._transport = transport
        self.wanted = Wish()
        #: The version of each part that was sent.
        self.parts: dict[str, int] = {}
        #: Jobs to be told of, if they differ from what was sent.
        self.dirty: set[int] = set()
        self.sent: dict[int, SentJob] = {}
        #: Jobs of the page changed up to this number, as far as the page was told that jobs moved.
        self.told_seq = 0
        #: The position from which the page continues, until its first subscription.
        self.since: int | None = None
        self.log: LogView | None = None
        self.log_version = 0
        self._frame: bytes | None = None
        self._filled = asyncio.Event()
        #: When the frame in the buffers was given to them; None if there is none.
        self.sending_since: float | None = None
        self.is_over = False

    @property
    def is_ready(self) -> bool:
        """Whether the page has taken all that it was given."""
        return self._frame is None and self.sending_since is None and not self.is_over

    def want(self, wanted: Wish) -> None:
        """Replace what the page wants; what it was sent before and wants still is not sent again."""
        for name in ("totals", "devices", "queues", "workers"):
            if not getattr(wanted, name):
                self.parts.pop(name, None)
        self.sent = {id_: sent for id_, sent in self.sent.items() if id_ in wanted.jobs}
        self.dirty = (self.dirty & wanted.jobs) | (wanted.jobs - self.sent.keys())
        if wanted.look and not self.wanted.look:
            self.dirty |= wanted.jobs
        self.wanted = wanted

    def assume(self, changed: set[int]) -> None:
        """Take the jobs that the page wants as sent, without those that changed."""
        for id_ in self.dirty - changed:
            self.sent[id_] = _UNKNOWN
        self.dirty &= changed

    def put(self, frame: bytes) -> None:
        """Send a frame; the page must be ready."""
        assert self.is_ready
        self._frame = frame
        self._filled.set()

    async def send(self, first: Iterable[bytes]) -> None:
        """Send the first frames and then every frame that is put; raise ConnectionError when the page is gone."""
        loop = asyncio.get_running_loop()
        for frame in first:
            await self._write(frame, loop.time())
        while True:
            await self._filled.wait()
            self._filled.clear()
            filled, self._frame = self._frame, None
            if filled is not None:
                await self._write(filled, loop.time())

    async def _write(self, frame: bytes, now: float) -> None:
        """Give a frame to the kernel; a slow reader is waited for."""
        self.sending_since = now
        await self._ws.send_frame(frame, WSMsgType.TEXT)
        self.sending_since = None
        if self.was_missed:
            self.was_missed = False
            self._freed()

    def cut(self) -> None:
        """End the connection at once."""
        self.is_over = True
        cut(self._transport)

    async def close(self, code: int, words: str) -> None:
        """Close the connection with a code and words, if the page takes them soon."""
        self.is_over = True
        short = words.encode("ascii", "backslashreplace")[:CLOSE_BYTES_MAX]
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(CLOSE_S):
                await self._ws.close(code=code, message=short, drain=False)
        cut(self._transport)
