"""Copies of the logs of ended jobs of other machines, for the time when their worker is not connected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Filter, Subscription
from grassq.core.model import FINAL, Job
from grassq.core.protocol import LogCut
from grassq.errors import GrassError
from grassq.run import log_files
from grassq.run.rundir import streams_of
from grassq.web.logs.tail import MARK_MAX, OFFSET_MAX, LogReader
from grassq.web.workers.connection import OutOfTouch

log = logging.getLogger(__name__)

#: Of a longer log, only the first and the last half of this many bytes are kept.
LOG_MAX = 16 << 20
#: One log takes at most 1/SHARE of the bytes allowed for all logs.
SHARE = 4
#: Logs of one worker that wait to be copied; with more, the oldest are given up.
WANTED_MAX = 10_000
#: When a worker comes back: how many ended jobs are looked at, and how many seconds back.
RECENT_MAX = 200
RECENT_S = 86400.0
#: Bytes of a copy that are read at a time.
READ_MAX = 1 << 20
#: A reader at the end of a copy checks after this long whether the worker is back.
COPY_WAIT_S = 1.0
_PART = ".part"
_NAME = re.compile(r"(\d{1,15})\.(\d{1,9})\.(log|out|err)(?:\.cut(\d{1,15}))?")


#: One log: a job, one of its attempts, and one stream.
Key = tuple[int, int, str]


class Copy(Struct, frozen=True):
    """A copy of one log, read like the log itself."""

    path: Path
    size: int
    #: The copy equals the log up to here. Then a mark says how much is missing, and the last part follows.
    cut_at: int | None

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of the copy from an offset on, up to a bound, and its size. A copy does not grow."""
        data, size = await asyncio.to_thread(_read, self.path, offset)
        if not data:
            await asyncio.sleep(min(wait_s, COPY_WAIT_S))
        return data, size

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return None: in a copy of a log that was cut, the mark is a line like any other."""
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of the copy begin."""
        return await asyncio.to_thread(log_files.last_lines, str(self.path), lines)


class LogCache:
    """A folder of copies with a bound on its bytes; the oldest copies are deleted for new ones."""

    def __init__(
        self,
        folder: Path,
        engine: Engine,
        reader: Callable[[str], LogReader | None],
        *,
        most_bytes: int,
        log_max: int = LOG_MAX,
        local: str | None = None,
    ) -> None:
        """`reader` returns a connected worker or None; the logs of the worker `local` need no copy."""
        self._folder = folder
        self._engine = engine
        self._reader = reader
        self._most = most_bytes
        self._log_max = max(0, min(log_max, most_bytes // SHARE))
        self._local = local
        self._kept: dict[Key, Copy] = {}
        self._bytes = 0
        self._wanted: dict[str, dict[Key, None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._ends: Subscription | None = None

    def start(self) -> None:
        """Find the copies of an earlier broker, and copy from now on; doing it again changes nothing."""
        if self._ends is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = []
        for path in self._folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is None:
                if path.name.endswith(_PART):
                    path.unlink(missing_ok=True)
                continue
            job, attempt, stream, cut = match.groups()
            status = path.stat()
            copy = Copy(path, status.st_size, int(cut) if cut else None)
            found.append((status.st_mtime, (int(job), int(attempt), stream), copy))
        for _, key, copy in sorted(found, key=lambda each: each[0]):
            self._keep(key, copy)
        self._evict()
        self._ends = self._engine.subscriptions.subscribe(Filter(ended=True), wake=self._jobs_ended)

    def copy(self, job: int, attempt: int, stream: str) -> Copy | None:
        """Return the copy of a log; None if there is none."""
        return self._kept.get((job, attempt, stream))

    def describe(self) -> dict[str, object]:
        """Return the state of the cache for `doctor`."""
        waiting = sum(len(keys) for keys in self._wanted.values())
        return {"logs": len(self._kept), "bytes": self._bytes, "most_bytes": self._most, "waiting": waiting}

    def _jobs_ended(self) -> None:
        """Copy the logs of jobs that have ended on other machines."""
        assert self._ends is not None
        ends = self._ends.take()
        self._look(_recent_logs if ends is None else partial(_logs_of, ids=[end.job for end in ends]))

    def greet(self, worker: str) -> None:
        """Copy logs of jobs that ended lately from a worker that has connected."""
        self.start()
        self._look(partial(_recent_logs, worker=worker))

    def _look(self, find: Callable[[Batch], list[tuple[str, Key]]]) -> None:
        task = asyncio.create_task(self._want(find))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _want(self, find: Callable[[Batch], list[tuple[str, Key]]]) -> None:
        try:
            found = await self._engine.read(find)
        except GrassError as error:
            log.warning("logs_not_copied error=%s", error)
            return
        for worker, key in found:
            if worker == self._local or key in self._kept or self._log_max == 0:
                continue
            wanted = self._wanted.setdefault(worker, {})
            wanted[key] = None
            if len(wanted) > WANTED_MAX:
                del wanted[next(iter(wanted))]
            if worker not in self._tasks:
                self._tasks[worker] = asyncio.create_task(self._fill(worker, wanted))

    async def _fill(self, worker: str, wanted: dict[Key, None]) -> None:
        """Copy one log after the other while the worker is connected; the rest waits until it connects again."""
        try:
            while wanted and (reader := self._reader(worker)) is not None:
                key = next(iter(wanted))
                try:
                    await self._fetch(reader, key)
                except OutOfTouch:
                    return
                except (GrassError, OSError) as error:
                    # Give up this log only: the next may be readable.
                    log.warning("log_not_copied worker=%s job=%s error=%s", worker, key[0], error)
                wanted.pop(key, None)
        finally:
            del self._tasks[worker]
            if not wanted:
                self._wanted.pop(worker, None)

    async def _fetch(self, reader: LogReader, key: Key) -> None:
        _, size = await reader.read(*key, OFFSET_MAX)
        half = self._log_max // 2
        is_long = size > self._log_max
        name = "{}.{}.{}".format(*key)
        part = self._folder / (name + _PART)
        try:
            _append(part, b"")
            at, cut_at = await _pull(reader, key, part, 0, half if is_long else size)
            if is_long:
                cut_at = half if cut_at is None else cut_at
                if size - half > at:
                    _append(part, b"\n[grass: %d bytes are not in this copy]\n" % (size - half - at))
                await _pull(reader, key, part, max(at, size - half), size)
            self._forget(key)
            path = part.rename(self._folder / (name if cut_at is None else f"{name}.cut{cut_at}"))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._keep(key, Copy(path, path.stat().st_size, cut_at))
        self._evict()

    def _keep(self, key: Key, copy: Copy) -> None:
        self._kept[key] = copy
        self._bytes += copy.size

    def _forget(self, key: Key) -> None:
        copy = self._kept.pop(key, None)
        if copy is not None:
            self._bytes -= copy.size
            with contextlib.suppress(OSError):
                copy.path.unlink(missing_ok=True)

    def _evict(self) -> None:
        while self._bytes > self._most and self._kept:
            self._forget(next(iter(self._kept)))

    def remove(self, jobs: Iterable[int]) -> None:
        """Delete the copies of these jobs."""
        gone = set(jobs)
        for wanted in self._wanted.values():
            for key in [key for key in wanted if key[0] in gone]:
                del wanted[key]
        for key in [key for key in self._kept if key[0] in gone]:
            self._forget(key)

    async def close(self) -> None:
        """Stop copying."""
        if self._ends is not None:
            self._ends.close()
        tasks = [*self._tasks.values(), *self._looks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _append(part: Path, data: bytes) -> None:
    # Opened for each piece: no open file is left behind when the copying is cancelled.
    with part.open("ab") as file:
        file.write(data)


async def _pull(reader: LogReader, key: Key, part: Path, offset: int, end: int) -> tuple[int, int | None]:
    """Copy a part of a log; return the offset after it, and where the first cut began that a mark stands for."""
    cut_at = None
    while offset < end:
        data, size = await reader.read(*key, offset)
        if not data and size > offset and (cut := await reader.cut(*key)) is not None and offset < cut.end <= size:
            _append(part, cut.mark[:MARK_MAX])
            cut_at, offset = offset if cut_at is None else cut_at, cut.end
            continue
        data = data[: end - offset]
        if not data:
            break
        _append(part, data)
        offset += len(data)
    return offset, cut_at


def _logs_of(batch: Batch, ids: list[int]) -> list[tuple[str, Key]]:
    """Return the logs of jobs, each with its worker."""
    return [log for job in selection.present(batch, ids) for log in _of_job(batch, job)]


def _recent_logs(batch: Batch, worker: str | None = None) -> list[tuple[str, Key]]:
    """Return the logs of jobs that ended lately, on one worker or on all."""
    jobs = batch.store.recent(batch.now - RECENT_S, RECENT_MAX)
    return [(at, key) for job in reversed(jobs) for at, key in _of_job(batch, job) if worker in (None, at)]


def _of_job(batch: Batch, job: Job) -> list[tuple[str, Key]]:
    if job.state not in FINAL:
        return []
    streams = streams_of(job.spec.split)
    if job.attempt == 1 and job.placement is not None:
        places = [(1, job.placement.worker)]
    else:
        places = [(attempt.number, attempt.placement.worker) for attempt in batch.store.attempts(job.id)]
    return [(worker, (job.id, number, stream)) for number, worker in places for stream in streams]


def _read(path: Path, offset: int) -> tuple[bytes, int]:
    with path.open("rb") as file:
        return os.pread(file.fileno(), READ_MAX, offset), os.fstat(file.fileno()).st_size
