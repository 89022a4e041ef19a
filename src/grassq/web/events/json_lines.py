"""GET /v1/events: committed changes of jobs as JSON lines, from now on or from a position on.

The first line is `subscribed`, or `reread` if changes since the position are lost. Every line has a position
(epoch, seq), from which a reader continues after a break: `since=EPOCH.SEQ`. With `ended=1` only ends of jobs are sent.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from time import time

import msgspec
from aiohttp import web

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import timestamp
from grassq.broker.engine import Engine
from grassq.broker.job_change import JobChange, traits_in
from grassq.broker.subscriptions import Filter, Position, Subscription
from grassq.core.query.selecting import selects
from grassq.core.syntax.numbers import is_number
from grassq.core.syntax.selectors import AllJobs, ByIds, ByName, ByQueue, ByState, LastJob, Selector
from grassq.errors import BadInput, GrassError
from grassq.web import requests
from grassq.web.access.auth import Route
from grassq.web.access.description import SELECTORS, Description, Parameter
from grassq.web.answers.changes import ChangeDocument
from grassq.web.listen.abort import cut, write_until_hangup

#: A line is sent at least this often, so that both ends notice a lost connection.
HEARTBEAT_S = 15.0
#: A reader that takes nothing for this long is cut off.
STALLED_S = 30.0
#: Changes that are written at once, before other clients have a turn.
LINES_AT_ONCE = 50
#: Selectors that the engine resolves at once.
RESOLVED_AT_ONCE = 10
EPOCH_MAX = 64


def events_route(engine: Engine) -> Route:
    """Return the route."""
    about = Description(
        "changes",
        "Committed changes of jobs, as they happen",
        ChangeDocument,
        "json lines",
        (
            SELECTORS,
            Parameter("since", "Where to go on: EPOCH.SEQ of the last line that was read", default="now"),
            Parameter("ended", "Only ends of jobs", bool),
        ),
    )
    return Route("GET", "/v1/events", partial(serve_events, engine=engine), "read", waits=True, about=about)


async def serve_events(request: web.Request, engine: Engine) -> web.StreamResponse:
    """Answer with changes of the selected jobs, or of all without selectors, until the reader disconnects."""
    since = position_in(request.query.get("since"))
    chosen, resolved = [*dict.fromkeys(requests.selectors(request))], list[Selector]()
    for at in range(0, len(chosen), RESOLVED_AT_ONCE):
        resolved += await engine.read(partial(_resolved, selectors=chosen[at : at + RESOLVED_AT_ONCE]))
    stream = ChangeLines(engine, resolved, since, ended=request.query.get("ended") == "1")
    with stream.subscription:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.force_close()
        await response.prepare(request)
        try:
            await write_until_hangup(request, stream.write(response))
        finally:
            cut(request.transport)
    return response


class ChangeLines:
    """One reader's lines. A reader that falls behind is told to re-read; a reader that takes nothing is cut off."""

    def __init__(
        self, engine: Engine, selectors: Sequence[Selector], since: Position | None, *, ended: bool = False
    ) -> None:
        self._subscriptions = engine.subscriptions
        self._chosen = ChosenChanges(selectors)
        #: Taken before the subscription, and nothing is awaited in between, so no change is missed.
        self._begins = since or self._subscriptions.position
        self.subscription: Subscription = self._subscriptions.subscribe(_filter(selectors, ended), since, self._wake)
        self._stalled: asyncio.Task[None] | None = None

    def _wake(self) -> None:
        if self.subscription.must_reread and self._stalled is not None:
            self._stalled.cancel()

    async def write(self, response: web.StreamResponse) -> None:
        """Write lines until the daemon ends or the reader disconnects."""
        try:
            if not self.subscription.must_reread:
                await self._send(response, [self._line("subscribed", self._begins)])
            while True:
                changes = await self.subscription.next(HEARTBEAT_S)
                if not changes:
                    event = "reread" if changes is None else "heartbeat"
                    await self._send(response, [self._line(event, self._subscriptions.position)])
                for at in range(0, len(changes or ()), LINES_AT_ONCE):
                    await self._send(response, self._lines((changes or [])[at : at + LINES_AT_ONCE]))
                    # A write waits only for a slow reader.
                    await asyncio.sleep(0)
        except (GrassError, OSError, TimeoutError):
            # The daemon ends, or the reader is gone: an answer without its end is known to be incomplete.
            return

    async def _send(self, response: web.StreamResponse, lines: Iterable[ChangeDocument]) -> None:
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        self._stalled = asyncio.current_task()
        try:
            if data:
                async with asyncio.timeout(STALLED_S):
                    await response.write(data)
        finally:
            self._stalled = None

    def _lines(self, changes: Sequence[JobChange]) -> list[ChangeDocument]:
        epoch, _ = self._subscriptions.position
        return [_document(epoch, change) for change in changes if self._chosen.has(change)]

    def _line(self, event: str, position: Position) -> ChangeDocument:
        epoch, seq = position
        return {"event": event, "epoch": epoch, "seq": seq, "at": timestamp(time())}


def _document(epoch: str, change: JobChange) -> ChangeDocument:
    where = change.placement
    return {
        "event": change.event,
        "epoch": epoch,
        "seq": change.seq,
        "at": timestamp(change.at),
        "job": change.job,
        "last": change.last,
        "queue": change.queue,
        "name": change.name,
        "state": change.state,
        "detail": change.detail,
        "attempt": change.attempt,
        "worker": where.worker if where else None,
        "reason": change.reason,
        "outcome": change.outcome,
        "exit_code": change.exit_code,
        "signal": change.signal,
        "error": change.error,
    }


def position_in(text: str | None) -> Position | None:
    """Return the position that a reader continues from; raise BadInput if it is none."""
    if text is None:
        return None
    epoch, _, number = text.rpartition(".")
    if not epoch or len(epoch) > EPOCH_MAX or not is_number(number, 18):
        raise BadInput(f"since={text[:40]!r} is not a position; use EPOCH.SEQ of a line of the stream")
    return epoch, int(number)


def _resolved(batch: Batch, selectors: Sequence[Selector]) -> list[Selector]:
    """Return the selectors with words resolved to queues or names, and the last job to its id."""
    found: list[Selector] = []
    for selector in selectors:
        resolved = selection.resolve(batch, selector)
        if isinstance(resolved, LastJob):
            resolved = selection.by_ids([selection.select(batch, [resolved])[0].id])[0]
        found.append(resolved)
    return found


def _filter(selectors: Sequence[Selector], ended: bool) -> Filter:
    """Return the narrowest filter for the selectors; `ChosenChanges` checks the rest."""
    if len(selectors) == 1 and isinstance(selectors[0], ByQueue):
        return Filter(queue=selectors[0].name, ended=ended)
    return Filter(ended=ended)


class ChosenChanges:
    """The changes that some selectors name; to check one takes as long for a thousand selectors as for one."""

    def __init__(self, selectors: Sequence[Selector]) -> None:
        self._all = not selectors or any(isinstance(each, AllJobs) for each in selectors)
        self._queues = {each.name for each in selectors if isinstance(each, ByQueue)}
        self._names = {each.name for each in selectors if isinstance(each, ByName)}
        plain = AllJobs | ByQueue | ByName | ByState | ByIds
        self._others = [each for each in selectors if not isinstance(each, plain)]
        self._states = {name for each in selectors if isinstance(each, ByState) for name in each.names}
        #: Sorted, and without overlap: the first ids, and the last ones.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(each for ids in selectors if isinstance(ids, ByIds) for each in ids.ranges):
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def has(self, change: JobChange) -> bool:
        """Return whether a change is chosen; of a range of jobs, one is enough."""
        if self._all or change.queue in self._queues or change.name in self._names or change.state in self._states:
            return True
        if self._others and self._is_in_others(change):
            return True
        at = bisect_right(self._firsts, change.last) - 1
        return at >= 0 and change.job <= self._lasts[at]

    def _is_in_others(self, change: JobChange) -> bool:
        traits = traits_in(change)
        return any(selects(each, traits) for each in self._others)
