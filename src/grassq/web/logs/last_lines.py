"""The last lines of the logs of some jobs, and what they tell: how far a job is, or why it probably failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import NotRequired, TypedDict

from aiohttp import web
from msgspec import Struct

from grassq.broker.documents.job import ProgressDocument
from grassq.core.diagnosis import cause, progress
from grassq.core.diagnosis.nested import CURSOR_UP, outer_bar
from grassq.core.diagnosis.progress import JobProgress
from grassq.core.model import Outcome, State
from grassq.core.term.screen import fold
from grassq.errors import GrassError
from grassq.run.rundir import streams_of
from grassq.web.logs.tail import OFFSET_MAX, LogReader, Sources

#: Of more jobs, only the first are looked at.
JOBS_MAX = 200
#: The last bytes of a log that are read, and how many lines of them are kept, each with how many characters.
BYTES_READ = 8 << 10
LINES_KEPT = 12
LINE_CHARS = 500
#: The last bytes in which the outer of two nested bars is looked for, at ten drawings a second those of five minutes;
#: and the number of logs for which a look does so.
NESTED_BYTES, NESTED_MAX = 256 << 10, 8
#: A look ends after this long. Workers that have not answered by then are left out.
LOOK_S = 0.3
#: Logs that are read at the same time.
READS_AT_ONCE = 16
#: Logs whose end is remembered; with more, the oldest are forgotten.
REMEMBERED_MAX = 2000
#: The states whose logs may still grow.
UNFINISHED = ("placed", "running")

#: A job and its attempt.
Failure = tuple[int, int]


class LookedAtDocument(TypedDict):
    """What a look at the logs of a job needs of its document, and adds to it. A `JobDocument` is one."""

    id: int
    state: State
    attempt: int
    worker: str | None
    split: bool
    exit_code: int | None
    signal: int | None
    outcome: Outcome | None
    error: str | None
    last_line: NotRequired[str | None]
    progress: NotRequired[ProgressDocument | None]
    cause: NotRequired[str | None]


class LogEnd(Struct, frozen=True):
    """The end of one log: its last lines as a terminal would show them, the newest last, and the progress they tell."""

    size: int
    lines: tuple[str, ...] = ()
    progress: JobProgress | None = None
    #: The bar around the bar in the last line, if there is one.
    outer: str | None = None

    @property
    def last_line(self) -> str | None:
        """The last line that is not empty."""
        return self.lines[-1] if self.lines else None


class LogPlace(Struct, frozen=True):
    """One log to look at: the attempt of a job, its worker, and the stream."""

    job: int
    attempt: int
    stream: str
    worker: str
    #: The log may still grow.
    is_growing: bool = True

    @property
    def key(self) -> tuple[int, int, str]:
        """What the end of the log is remembered by."""
        return self.job, self.attempt, self.stream


class FreshEnd(Struct, frozen=True):
    """The last bytes of a log, its size, and the outer of two nested bars in it."""

    data: bytes
    size: int
    outer: str | None = None


class LastLines:
    """Reads the ends of logs, on this machine and on other workers, and remembers those that did not grow."""

    def __init__(self, sources: Sources, look_s: float = LOOK_S) -> None:
        self._sources = sources
        self._look_s = look_s
        #: The end of a log, and whether the log was complete when it was read.
        self._remembered: dict[tuple[int, int, str], tuple[LogEnd, bool]] = {}
        #: Why attempts failed, as far as it was guessed.
        self._causes: dict[Failure, str | None] = {}

    async def describe_if_asked(self, request: web.Request, jobs: Sequence[LookedAtDocument]) -> None:
        """Do what `describe` does if the request says `look=1`: most clients need no log."""
        if request.query.get("look") == "1":
            await self.describe(jobs)

    async def describe(self, jobs: Sequence[LookedAtDocument]) -> None:
        """Add `last_line`, `progress` and `cause` to the documents of jobs, as far as logs can be read in time."""
        places = {job["id"]: _places(job) for job in jobs[:JOBS_MAX]}
        ends = await self.read(place for some in places.values() for place in some)
        found = [[ends[place] for place in places[job["id"]] if place in ends] for job in jobs[:JOBS_MAX]]
        causes = await self._causes_of(list(zip(jobs, found, strict=False)))
        for job, some in zip(jobs, found, strict=False):
            _tell(job, some)
            if job["state"] == "failed":
                job["cause"] = causes.get(_failure(job))

    async def _causes_of(self, jobs: Sequence[tuple[LookedAtDocument, Sequence[LogEnd]]]) -> dict[Failure, str | None]:
        """Guess why jobs failed, once for each, on a thread: lines of a hostile log take milliseconds."""
        failed = [(job, ends) for job, ends in jobs if job["state"] == "failed"]
        known = {key: self._causes[key] for job, _ in failed if (key := _failure(job)) in self._causes}
        unknown = [(job, ends) for job, ends in failed if _failure(job) not in known]
        if not unknown:
            return known
        guessed = await asyncio.to_thread(_guesses, unknown)
        # Without the log the guess may be a better one later.
        self._causes |= {key: guessed[key] for job, ends in unknown if ends and (key := _failure(job)) in guessed}
        while len(self._causes) > REMEMBERED_MAX:
            del self._causes[next(iter(self._causes))]
        return known | guessed

    async def read(self, places: Iterable[LogPlace]) -> dict[LogPlace, LogEnd]:
        """Return the ends of logs; a log that cannot be read in time is left out."""
        found: dict[LogPlace, LogEnd] = {}
        fresh: dict[LogPlace, FreshEnd] = {}
        nested: list[LogPlace] = []
        turns = asyncio.Semaphore(READS_AT_ONCE)

        async def look(place: LogPlace) -> None:
            async with turns:
                known, is_complete = self._remembered.get(place.key, (None, False))
                if known is not None and is_complete and not place.is_growing:
                    found[place] = known
                    return
                reader = self._sources.source(place.worker, *place.key).reader
                _, size = await reader.read(*place.key, OFFSET_MAX)
                if known is not None and known.size == size:
                    self._remember(place, known)
                    found[place] = known
                    return
                data, size = await reader.read(*place.key, max(0, size - BYTES_READ))
                if not data and size and (cut := await reader.cut(*place.key)) is not None:
                    # Inside what was cut out of the log: what is left after it is shorter than BYTES_READ.
                    data, size = await reader.read(*place.key, cut.end)
                data = data[-BYTES_READ:]
                outer = None
                if CURSOR_UP in data and len(nested) < NESTED_MAX:
                    nested.append(place)
                    outer = await _outer_bar(reader, place, data, size, known)
                fresh[place] = FreshEnd(data, size, outer)

        tasks = [asyncio.ensure_future(_quietly(look(place))) for place in list(places)[: 2 * JOBS_MAX]]
        if tasks:
            try:
                await asyncio.wait(tasks, timeout=self._look_s)
            finally:
                for task in tasks:
                    task.cancel()
        if fresh:
            # The tasks that were cancelled may still write into `fresh`.
            ends = await asyncio.to_thread(_ends, dict(fresh))
            for place, end in ends.items():
                self._remember(place, end)
            found |= ends
        return found

    def _remember(self, place: LogPlace, end: LogEnd) -> None:
        self._remembered.pop(place.key, None)
        self._remembered[place.key] = end, not place.is_growing
        while len(self._remembered) > REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]


async def _outer_bar(reader: LogReader, place: LogPlace, data: bytes, size: int, known: LogEnd | None) -> str | None:
    """Return the bar around the bar at the end of a log; what was read for an earlier look is not read again."""
    earlier = known if known is not None and known.outer is not None and known.size <= size else None
    begin = max(size - NESTED_BYTES, 0 if earlier is None else earlier.size)
    if begin < size - len(data):
        data, _ = await reader.read(*place.key, begin)
    return outer_bar(data) or (None if earlier is None else earlier.outer)


async def _quietly(look: Awaitable[None]) -> None:
    """Await a look at one log; a log that cannot be read is left out."""
    try:
        await look
    except (GrassError, OSError):
        return


def _places(job: LookedAtDocument) -> list[LogPlace]:
    """Return the logs of the last attempt of a job; a job with two streams has two."""
    id_, attempt, worker = job["id"], job["attempt"], job["worker"]
    if attempt < 1 or worker is None:
        return []
    streams = streams_of(job["split"])
    return [LogPlace(id_, attempt, stream, worker, job["state"] in UNFINISHED) for stream in streams]


def _tell(job: LookedAtDocument, ends: Sequence[LogEnd]) -> None:
    """Add what the ends of the logs of a job tell to its document."""
    with_progress = [end for end in ends if end.progress is not None]
    # Of two streams, stderr says why a job failed, and the stream with a bar says how far the job is.
    order = [*reversed(ends)] if job["state"] == "failed" else [*with_progress, *ends]
    job["last_line"] = next((end.last_line for end in order if end.last_line), None)
    if job["state"] in UNFINISHED:
        found = with_progress[0].progress if with_progress else None
        job["progress"] = None if found is None else progress_document(found)


def _failure(job: LookedAtDocument) -> Failure:
    """Return what a guess is remembered by: the attempt."""
    return job["id"], job["attempt"]


def _guesses(failed: Sequence[tuple[LookedAtDocument, Sequence[LogEnd]]]) -> dict[Failure, str | None]:
    """Return why jobs probably failed; runs on a thread."""
    found: dict[Failure, str | None] = {}
    for job, ends in failed:
        lines = [line for end in ends for line in end.lines]
        guessed = cause.guess(job["outcome"], job["signal"], job["exit_code"], lines, job["error"])
        found[_failure(job)] = None if guessed is None else guessed.text
    return found


def progress_document(found: JobProgress) -> ProgressDocument:
    """Return progress as a document."""
    return {
        "done": found.done,
        "total": found.total,
        "fraction": None if found.fraction is None else round(found.fraction, 4),
        "left_s": found.left_s,
    }


def _ends(fresh: Mapping[LogPlace, FreshEnd]) -> dict[LogPlace, LogEnd]:
    """Return the ends of logs from their last bytes; runs on a thread."""
    return {place: end_of(read.data, read.size, read.outer) for place, read in fresh.items()}


def end_of(data: bytes, size: int, outer: str | None = None) -> LogEnd:
    """Return the end of a log from its last bytes and its size; `outer` is the bar around the last one."""
    lines = [line for line in _folded(data, is_whole=len(data) >= size) if line][-LINES_KEPT:]
    telling = [outer, *lines[-1:]] if outer is not None else lines
    kept = tuple(line[:LINE_CHARS] for line in lines)
    return LogEnd(size, kept, progress.read(telling) or progress.read(lines), outer)


def _folded(data: bytes, is_whole: bool) -> list[str]:
    """Return lines as a terminal shows them."""
    lines = [line.text.rstrip() for line in fold(data)]
    # The beginning of the first line may be missing.
    return lines if is_whole or len(lines) < 2 else lines[1:]
