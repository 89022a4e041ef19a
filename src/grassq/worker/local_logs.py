"""Reads the logs of a home's attempts, and waits for logs that grow."""

from __future__ import annotations

import asyncio

from grassq.core.protocol import LONG_POLLS_MAX, LogCut
from grassq.errors import Refused
from grassq.run import log_files, rundir

#: How often the size of each log is checked that a reader waits for.
LOOK_S = 0.05


class LocalLogs:
    """The logs below one home. Used from the event loop only."""

    def __init__(self, home: str) -> None:
        self._home = home
        #: Waiting readers: the attempt's folder, the stream, and its size when the wait began.
        self._waiting: dict[asyncio.Future[None], tuple[str, str, int]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream and its size; at its end wait up to `wait_s` seconds until it grows or shrinks."""
        path = rundir.attempt_dir(self._home, job, attempt)
        if wait_s > 0 and log_files.size(path, stream) == offset:
            await self._wait(path, stream, offset, wait_s)
        size = log_files.size(path, stream)
        # Reading on a thread takes longer than checking the size.
        if size <= offset:
            return b"", size
        data = await asyncio.to_thread(log_files.read, path, stream, offset)
        if not data and wait_s > 0:
            # Inside a cut: a broker of an earlier release takes that for the end of the log, and asks again at once.
            await asyncio.sleep(LOOK_S)
        return data, max(size, offset + len(data))

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return what was cut out of a stream that is above its limit; None if nothing was."""
        path = rundir.attempt_dir(self._home, job, attempt)
        found = await asyncio.to_thread(log_files.cut, path, stream)
        return None if found is None else LogCut(found.end, found.mark)

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin."""
        path = rundir.attempt_dir(self._home, job, attempt)
        return await asyncio.to_thread(log_files.tail_offset, path, stream, lines)

    async def _wait(self, path: str, stream: str, size: int, wait_s: float) -> None:
        if len(self._waiting) >= LONG_POLLS_MAX:
            raise Refused(f"too many logs are followed on this machine (limit {LONG_POLLS_MAX:,})")
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = path, stream, size
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            await asyncio.wait([changed], timeout=wait_s)
        finally:
            self._waiting.pop(changed, None)

    async def _look(self) -> None:
        """Check the size of every log that a reader waits for; one task for all readers, while there are any."""
        while self._waiting:
            await asyncio.sleep(LOOK_S)
            for changed, (path, stream, size) in list(self._waiting.items()):
                if not changed.done() and log_files.size(path, stream) != size:
                    changed.set_result(None)
        self._looking = None
