"""The hub: hears of committed changes, reads what changed once for all pages, and gives each page a frame."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import partial
from itertools import islice

import msgspec
from aiohttp import WSCloseCode
from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.job_change import JobChange
from grassq.broker.subscriptions import Filter, Position, Subscription
from grassq.broker.summary.live import PARTS, Picture, picture
from grassq.core.model import FINAL
from grassq.errors import Gone, GrassError
from grassq.web.live.log_view import LogView
from grassq.web.live.looks import Looks
from grassq.web.live.messages import LogWish, Wish
from grassq.web.live.page import BEAT, NO_JOB, EncodedJob, OpenPage
from grassq.web.logs.last_lines import LastLines
from grassq.web.workers.directory import WorkerDirectory

log = logging.getLogger(__name__)

#: The least time between two frames of a page; after frames that took long, a multiple of it, up to a bound.
PACE_S, PACE_COSTS, PACE_MAX_S = 0.1, 10.0, 2.0
#: Pages hear a beat this often, and a page that has not taken a frame for so long is cut.
BEAT_S, STALLED_S = 15.0, 30.0
#: Jobs that are read in one batch, and for the frames of one moment; the others come with the next frames.
JOBS_AT_ONCE, JOBS_PER_FRAME = 100, 2000
#: Bytes of jobs that are read for the frames of one moment, and of the jobs of one frame; the others come later.
READ_BYTES_MAX, FRAME_BYTES_MAX = 8 << 20, 2 << 20
#: After this long the store is read again that could not be read.
RETRY_S = 1.0
#: A worker that has gone is called unreachable a moment later.
AWAY_S = 5.5

Words = dict[int, EncodedJob]


class Part(Struct):
    """A part of the whole as it was read last."""

    raw: bytes = b""
    version: int = 0


class Hub:
    """Everything that open pages share. It works only while there are pages."""

    def __init__(
        self, engine: Engine, directory: WorkerDirectory, last_lines: LastLines, each_beat: Callable[[], None]
    ) -> None:
        """Call `each_beat` before every beat: it ends what has expired."""
        self._engine = engine
        self._each_beat = each_beat
        self._directory = directory
        self._looks = Looks(last_lines, self._looked)
        self.pages: dict[OpenPage, None] = {}
        self._by_job: dict[int, set[OpenPage]] = {}
        self._logs: dict[LogWish, LogView] = {}
        self._parts = {name: Part() for name in PARTS}
        #: The parts that may have changed since they were read.
        self._stale = set(PARTS)
        #: The number of the last change that was heard.
        self._seq = 0
        self._changes: Subscription | None = None
        self._stop_watching: Callable[[], object] = lambda: None
        self._awake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._later: asyncio.TimerHandle | None = None

    @property
    def seq(self) -> int:
        """The number of the last change that every page was told of, if it had a frame since."""
        return self._seq

    def add(self, page: OpenPage) -> None:
        """Begin to tell a page what changes."""
        self.pages[page] = None
        if self._changes is None:
            subscriptions = self._engine.subscriptions
            # Not in the name of the page that comes first: what is done here is done for all pages.
            own = Context()
            self._seq = subscriptions.position[1]
            self._changes = own.run(subscriptions.subscribe, Filter(), wake=self.wake)
            self._stop_watching = subscriptions.watch_machines(self._machines_changed)
            self._stale = set(PARTS)
            self._tasks = [asyncio.create_task(each, context=own) for each in (self._run(), self._beat())]

    async def remove(self, page: OpenPage) -> None:
        """Tell a page no more; after the last one, the hub does nothing."""
        self.pages.pop(page, None)
        self._unlist(page, page.wanted.jobs)
        left, page.log = page.log, None
        if not self.pages:
            await self._rest()
        await self._leave(left)

    async def _rest(self) -> None:
        self._stop_watching()
        changes, self._changes = self._changes, None
        tasks, self._tasks = self._tasks, []
        if changes is not None:
            changes.close()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._looks.keep(())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def want(self, page: OpenPage, wanted: Wish) -> None:
        """Tell a page from now on what it wants."""
        before, is_same_log = page.wanted.jobs, page.wanted.log == wanted.log
        page.want(wanted)
        self._unlist(page, before - wanted.jobs)
        for id_ in wanted.jobs - before:
            self._by_job.setdefault(id_, set()).add(page)
        if page.since is not None:
            # The page has all jobs as they were then; what changed since is told.
            page.assume(self._changed_since(page.since))
            page.since = None
        left, page.log, page.log_version = page.log, self._view(wanted.log), page.log_version if is_same_log else 0
        self._looks.keep(self._by_job)
        self.wake()
        await self._leave(left)

    def wake(self) -> None:
        """Make frames soon."""
        self._awake.set()

    def _unlist(self, page: OpenPage, jobs: Iterable[int]) -> None:
        for id_ in jobs:
            others = self._by_job.get(id_, set())
            others.discard(page)
            if not others:
                self._by_job.pop(id_, None)

    def _view(self, asked: LogWish | None) -> LogView | None:
        if asked is None:
            return None
        # Pages that show more or fewer lines of one log share its view.
        key = LogWish(asked.job, asked.attempt, asked.stream)
        if (view := self._logs.get(key)) is None:
            view = self._logs[key] = LogView(self._engine, self._directory, key, self.wake)
        view.shown += 1
        return view

    async def _leave(self, view: LogView | None) -> None:
        if view is not None:
            view.shown -= 1
            if not view.shown:
                del self._logs[view.asked]
                await view.close()

    def _machines_changed(self) -> None:
        self._touch_unfinished()
        loop = asyncio.get_running_loop()
        if self._later is None:
            self._later = loop.call_later(AWAY_S, self._touch_later)
        self.wake()

    def _touch_later(self) -> None:
        self._later = None
        self._touch_unfinished()
        self.wake()

    def _touch_unfinished(self) -> None:
        """Read again whatever depends on workers, queues and pauses."""
        self._stale = set(PARTS)
        for page in self.pages:
            page.dirty.update([id_ for id_, sent in page.sent.items() if not sent.is_final])

    def _looked(self, jobs: Iterable[int]) -> None:
        """Tell pages of jobs whose logs have new ends."""
        for id_ in jobs:
            for page in self._by_job.get(id_, ()):
                if page.wanted.look:
                    page.dirty.add(id_)
        self.wake()

    def knows(self, since: Position) -> bool:
        """Tell whether the changes since a position are still known."""
        return self._engine.subscriptions.since(since) is not None

    def _changed_since(self, seq: int) -> set[int]:
        """Return the shown jobs that changed since a position; all of them if that is not known any more."""
        subscriptions = self._engine.subscriptions
        changes = subscriptions.since((subscriptions.position[0], seq))
        return set(self._by_job) if changes is None else {id_ for each in changes for id_ in self._shown(each)}

    def _shown(self, change: JobChange) -> Iterable[int]:
        """Return the jobs of a change that a page shows."""
        if change.last - change.job < len(self._by_job):
            return [id_ for id_ in range(change.job, change.last + 1) if id_ in self._by_job]
        return [id_ for id_ in self._by_job if change.job <= id_ <= change.last]

    async def _run(self) -> None:
        """Make frames whenever something changed, but not too often."""
        loop = asyncio.get_running_loop()
        while True:
            await self._awake.wait()
            self._awake.clear()
            began = loop.time()
            try:
                cost_s = await self._make_frames()
            except Gone:
                return
            except GrassError as error:
                log.info("no_frames error=%s", error)
                loop.call_later(RETRY_S, self.wake)
                cost_s = 0.0
            except Exception:
                # The top of the loop: a bug must not leave pages that look live. The log has the cause.
                log.exception("frames_failed pages=%s", len(self.pages))
                self._stale, cost_s = set(PARTS), 0.0
                for page in list(self.pages):
                    page.cut()
            pace_s = min(max(PACE_S, PACE_COSTS * cost_s), PACE_MAX_S)
            await asyncio.sleep(max(0.0, began + pace_s - loop.time()))

    async def _beat(self) -> None:
        """Let every page hear from the daemon, and cut those that take nothing."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(BEAT_S)
            self._each_beat()
            for page in list(self.pages):
                if page.is_ready:
                    page.put(BEAT)
                elif page.sending_since is not None and loop.time() - page.sending_since >= STALLED_S:
                    page.cut()
            with contextlib.suppress(GrassError):
                if await self._engine.read(_is_any_away, short=True):
                    # What is said of such a worker's jobs tells for how long it has been away.
                    self._touch_unfinished()
                    self.wake()

    def _hear(self) -> None:
        """Note what the changes since the last frames concern."""
        assert self._changes is not None
        changes = self._changes.take()
        seq = self._engine.subscriptions.position[1]
        if changes is None:
            for id_, pages in self._by_job.items():
                for page in pages:
                    page.dirty.add(id_)
            for view in self._logs.values():
                view.job_changed()
        for change in changes or ():
            for id_ in self._shown(change):
                for page in self._by_job[id_]:
                    page.dirty.add(id_)
            self._tell_logs(change)
        if changes is None or changes:
            self._stale = set(PARTS)
        self._seq = seq

    def _tell_logs(self, change: JobChange) -> None:
        for view in self._logs.values():
            if change.job <= view.asked.job <= change.last:
                view.job_changed()

    async def _make_frames(self) -> float:
        """Give a frame to every page that is ready; return how long the event loop was busy with it."""
        self._hear()
        seq = self._seq
        ready = [page for page in self.pages if page.is_ready]
        for page in self.pages:
            page.was_missed = not page.is_ready
        wanted = {name for name in self._stale if any(getattr(page.wanted, name) for page in ready)}
        ids = [*islice(dict.fromkeys(id_ for page in ready for id_ in page.dirty), JOBS_PER_FRAME)]
        if len(ids) == JOBS_PER_FRAME:
            self.wake()
        self._stale -= wanted
        asked = {page: page.dirty.intersection(ids) for page in ready}
        for page, some in asked.items():
            page.dirty -= some
        words: Words = {}
        cost_s = 0.0
        try:
            for at in range(0, max(1, len(ids)), JOBS_AT_ONCE):
                few = ids[at : at + JOBS_AT_ONCE]
                if few or wanted:
                    seen, read_s = await self._engine.read(partial(_read, parts=sorted(wanted), ids=few), short=True)
                    began = time.perf_counter()
                    words |= self._encoded(seen)
                    cost_s += read_s + time.perf_counter() - began
                wanted = set()
                if sum(len(job.raw) for job in words.values()) > READ_BYTES_MAX:
                    self.wake()
                    break
        except GrassError:
            self._stale |= wanted
            for page, some in asked.items():
                page.dirty |= some
            raise
        began = time.perf_counter()
        for page, some in asked.items():
            # What changed while it was read may be newer than what was read.
            again = page.dirty & some
            page.dirty |= some
            if not page.is_ready:
                page.was_missed = True
            elif page in self.pages and (frame := self._frame(page, words, seq)) is not None:
                page.put(frame)
            page.dirty |= again
        return cost_s + time.perf_counter() - began

    def _encoded(self, seen: Picture) -> Words:
        """Encode what was read, once for all pages."""
        for name, told in seen.parts.items():
            part, raw = self._parts[name], msgspec.json.encode(told)[1:-1]
            if raw != part.raw:
                part.raw, part.version = raw, part.version + 1
        words: Words = {}
        for id_, job in seen.jobs.items():
            if job is not None:
                self._looks.add_to(job)
                if any(page.wanted.look for page in self._by_job.get(id_, ())):
                    self._looks.note(job)
            raw = NO_JOB if job is None else msgspec.json.encode(job)
            is_final = job is not None and job["state"] in FINAL
            words[id_] = EncodedJob(id_, raw, seen.by.get(id_), is_final)
        return words

    def _frame(self, page: OpenPage, words: Words, seq: int) -> bytes | None:
        """Return what a page was not sent yet; None if there is nothing."""
        pieces: list[bytes] = []
        for name, part in self._parts.items():
            if getattr(page.wanted, name) and part.version and page.parts.get(name) != part.version:
                page.parts[name] = part.version
                pieces.append(part.raw)
        if page.wanted.totals and page.told_seq < seq:
            page.told_seq = seq
            pieces.append(b'"moved":true')
        jobs = self._jobs(page, words)
        if jobs:
            pieces.append(b'"jobs":{%b}' % b",".join(jobs))
        view, asked = page.log, page.wanted.log
        if view is not None and asked is not None and page.log_version != view.version:
            pieces.append(b'"log":' + view.piece(page.log_version, asked.lines))
            page.log_version = view.version
        return b'{"seq":%d,%b}' % (seq, b",".join(pieces)) if pieces else None

    def _jobs(self, page: OpenPage, words: Words) -> list[bytes]:
        """Return the jobs of a frame; what does not fit comes with the next one."""
        told: list[bytes] = []
        left = FRAME_BYTES_MAX
        for id_ in [id_ for id_ in page.dirty if id_ in words]:
            job = words[id_]
            if told and len(job.raw) > left:
                self.wake()
                break
            page.dirty.discard(id_)
            if page.sent.get(id_) != job.sent:
                page.sent[id_] = job.sent
                told.append(job.told(page.caller))
                left -= len(job.raw)
        return told

    async def close(self) -> None:
        """Close every page: the daemon stops."""
        words = "the daemon stops; the page connects again when it is back"
        await asyncio.gather(*[page.close(WSCloseCode.GOING_AWAY, words) for page in self.pages])
        await self._looks.close()


def _read(batch: Batch, parts: list[str], ids: list[int]) -> tuple[Picture, float]:
    """Return a picture, and how long it took to make."""
    began = time.perf_counter()
    return picture(batch, parts, ids), time.perf_counter() - began


def _is_any_away(batch: Batch) -> bool:
    return any(not worker.online for worker in batch.board.workers.values())
