"""Makes notices of the ends of jobs in the store, and removes the ends that were told."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import MsgspecError, Struct
from msgspec.structs import replace

from grassq.broker.documents.texts import timestamp
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Filter
from grassq.core.notices import notice as notices
from grassq.core.notices.notice import Clue, JobEnd, Notice
from grassq.core.notices.rules import NotifyRule, Occasion
from grassq.core.notices.targets import Target, masked, read_target, stored_target
from grassq.errors import BadInput, Gone, GrassError
from grassq.notify.outbox import NoticeDelivery, Outbox, RetryPolicy, State
from grassq.notify.record import NotifyRecord, PastDelivery
from grassq.notify.senders import NoticeSender
from grassq.notify.sweep_watch import SweepState, SweepWatch

log = logging.getLogger(__name__)

#: Ends that are read at once.
PAGE = 200
#: The least time between two looks at the store: many short jobs cost a few questions per second.
LOOK_S = 0.25
#: How long to wait after the store could not be asked.
AGAIN_S = 5.0
#: The waiting notices that `grass notify` lists.
WAITING_SHOWN = 50
#: How long to look for the last line of a failed job.
CLUE_S = 2.0

#: Finds what the log of a failed job says.
FindClue = Callable[[JobEnd], Awaitable[Clue]]


class _Occasions(Struct):
    """One end of a job, and the notices that are made of it."""

    number: int
    end: JobEnd
    made: list[tuple[Notice, Target, bytes]] = []


class Notifier:
    """Reads ends, makes notices, sends them. `run` works until it is cancelled; `close` stops what is being sent."""

    def __init__(
        self,
        engine: Engine,
        rules: Sequence[NotifyRule],
        folder: str | None,
        sender: NoticeSender,
        *,
        policy: RetryPolicy | None = None,
        find_clue: FindClue | None = None,
    ) -> None:
        """Tell by these rules; `folder` has the record, None keeps none."""
        self._engine = engine
        self._rules = rules
        self._sender = sender
        self._find_clue = find_clue
        self._record = NotifyRecord(folder)
        self._outbox = Outbox(sender, self._delivered, policy)
        self._sweeps = SweepWatch(engine)
        self._after = 0
        #: By end: how many of its notices are not over yet; and the ends that can be removed from the store.
        self._open: dict[int, int] = {}
        self._over: list[int] = []
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Tell of every end in the store, those of an earlier daemon first."""
        with self._engine.subscriptions.subscribe(Filter(ended=True), wake=self._wake.set) as subscription:
            while True:
                self._wake.clear()
                subscription.take()
                try:
                    await self._look()
                    await self._settle()
                except Gone:
                    return
                except Exception as error:
                    # The top of the loop: a bug must not end all notices. What is not told stays in the store.
                    log.warning("notices_put_off error=%s", error, exc_info=not isinstance(error, GrassError))
                    await asyncio.sleep(AGAIN_S)
                    self._wake.set()
                await asyncio.sleep(LOOK_S)
                await self._wake.wait()

    async def close(self) -> None:
        """Stop; the next daemon tells what was not told."""
        await self._outbox.close()
        await asyncio.to_thread(self._record.save)

    async def _look(self) -> None:
        """Make notices of the ends that were stored since the last look."""
        held: dict[str, _Occasions] = {}
        is_more = True
        try:
            while is_more:
                rows = await self._engine.read(lambda batch: batch.store.untold(self._after, PAGE), short=True)
                is_more = len(rows) == PAGE
                ends = [each for each in (self._read_end(*row) for row in rows) if each is not None]
                await self._of_jobs_and_sweeps(ends)
                for each in ends:
                    # The last end of each queue waits: it may be the one that empties the queue.
                    if (before := held.pop(each.end.queue, None)) is not None:
                        await self._send(before)
                    held[each.end.queue] = each
                self._after = rows[-1][0] if rows else self._after
            await self._of_queues(held)
        finally:
            for each in held.values():
                await self._send(each)

    def _read_end(self, number: int, data: bytes) -> _Occasions | None:
        """Return an end from the store; one that cannot be read, of another release, is removed from there."""
        try:
            return _Occasions(number, notices.decode_end(data), [])
        except MsgspecError as error:
            log.error("end_unreadable number=%s error=%s", number, error)
            self._over.append(number)
            return None

    async def _of_jobs_and_sweeps(self, ends: list[_Occasions]) -> None:
        last = {each.end.sweep: each.number for each in ends}
        for each in ends:
            end = each.end
            sweep = await self._sweeps.look(end) if self._may_be_sweep(end) else None
            # The most special notice first: about one end a target gets one notice.
            if end.state == "failed":
                if self._is_first_failure(each, sweep):
                    self._add(each, notices.about_job(end, "first-failure"), "first-failure", own=sweep is not None)
                self._add(each, notices.about_job(end, "failed"), "failed")
            self._add(each, notices.about_job(end, "job"), "job", own=sweep is None)
            is_last = sweep is not None and sweep.is_over and last[end.sweep] == each.number
            if is_last and self._record.mark(f"sweep {_shared(end)} {end.created}", each.number):
                self._add(each, notices.about_sweep(end, await self._sweeps.tally(end)), "sweep", own=True)

    def _may_be_sweep(self, end: JobEnd) -> bool:
        """Tell whether it matters if a job is part of a sweep."""
        occasions: tuple[Occasion, ...] = ("sweep", "first-failure")
        rules = any(rule.concerns(each, end.queue, end.name) for rule in self._rules for each in occasions)
        return end.name is not None and bool(end.notify or rules)

    def _is_first_failure(self, each: _Occasions, sweep: SweepState | None) -> bool:
        """Tell whether a failure is the first of its sweep, or else of its queue since the queue was empty."""
        end = each.end
        what = f"failure {_shared(end)} {end.created}" if sweep is not None else f"failure in {end.queue}"
        return self._record.mark(what, each.number)

    async def _of_queues(self, last: Mapping[str, _Occasions]) -> None:
        if not last:
            return
        unfinished = await self._engine.read(lambda batch: {queue: batch.board.unfinished(queue) for queue in last})
        for queue, each in last.items():
            mark = f"empty {queue}"
            if unfinished[queue] or each.number < self._record.last(mark):
                continue
            self._record.unmark(mark)
            self._record.mark(mark, each.number)
            self._record.unmark(f"failure in {queue}")
            self._add(each, notices.about_queue(each.end), "queue-empty")

    def _add(self, each: _Occasions, notice: Notice, occasion: Occasion, *, own: bool = False) -> None:
        """Add a notice for the rules that it concerns; `own`: for the targets of the job too."""
        end = each.end
        targets = [(rule.target, b"") for rule in self._rules if rule.concerns(occasion, end.queue, end.name)]
        if own:
            targets += [(stored_target(text), end.cwd) for text in end.notify]
        told = {target for made, target, _ in each.made if made.is_about_job} if notice.is_about_job else set()
        each.made += [(notice, target, cwd) for target, cwd in dict(targets).items() if target not in told]

    async def _send(self, each: _Occasions) -> None:
        clue = await self._clue(each)
        deliveries = []
        for made, target, cwd in each.made:
            notice = replace(made, clue=clue) if made.is_about_job else made
            key = f"{each.number}-{notice.event}-{hashlib.sha256(target.text.encode()).hexdigest()[:12]}"
            if not self._record.was_sent(key):
                deliveries.append(NoticeDelivery(key, target, notice, cwd, each.number))
        if not deliveries:
            self._over.append(each.number)
            return
        self._open[each.number] = len(deliveries)
        for delivery in deliveries:
            self._outbox.put(delivery)

    async def _clue(self, each: _Occasions) -> Clue:
        """Return what the log of a failed job says, if a notice tells of the job and the log can be read soon."""
        if each.end.state != "failed" or self._find_clue is None or not any(m.is_about_job for m, _, _ in each.made):
            return Clue()
        try:
            async with asyncio.timeout(CLUE_S):
                return await self._find_clue(each.end)
        except (TimeoutError, GrassError, OSError):
            return Clue()

    def _delivered(self, delivery: NoticeDelivery, state: State) -> None:
        if state != "dropped":
            # Dropped notices are counted only: many of them would push out what was sent.
            self._record.add(_past(delivery, state))
        left = self._open[delivery.number] - 1
        if left:
            self._open[delivery.number] = left
        else:
            del self._open[delivery.number]
            self._over.append(delivery.number)
        self._wake.set()

    async def _settle(self) -> None:
        """Remove ends from the store of which nothing is left to tell; first note what was told."""
        await asyncio.to_thread(self._record.save)
        if self._over:
            over, self._over = self._over, []
            try:
                await self._engine.change(lambda batch: batch.changes.told.extend(over), short=len(over) <= PAGE)
            except GrassError:
                self._over = over + self._over
                raise

    async def test(self, to: str | None) -> list[dict[str, object]]:
        """Send a test notice now, once, to a target or to those of all rules; return how each try went."""
        targets = [read_target(to, "TO")] if to is not None else [*dict.fromkeys(rule.target for rule in self._rules)]
        if not targets:
            raise BadInput("there are no rules to test; name a target: grass notify --test desktop")
        notice = notices.a_test(time.time())
        results = await asyncio.gather(*(self._sender.send(target, notice) for target in targets))
        return [
            {"to": masked(target), "ok": not result.error, "error": result.error or None}
            for target, result in zip(targets, results, strict=True)
        ]

    def describe(self) -> dict[str, object]:
        """Return the rules, what waits and what was sent last, newest first; no secret is in it."""
        waiting = self._outbox.waiting
        return {
            "rules": [
                {"on": rule.on, "to": masked(rule.target), "queue": rule.queue, "name": rule.name}
                for rule in self._rules
            ],
            "waiting": [_document(_past(each, "waiting")) for each in waiting[:WAITING_SHOWN]],
            "waiting_count": len(waiting),
            "dropped": self._outbox.dropped,
            "recent": [_document(past) for past in _newest_first(self._record.deliveries)],
        }


def _past(delivery: NoticeDelivery, state: str) -> PastDelivery:
    notice = delivery.notice
    return PastDelivery(
        delivery.key,
        time.time(),
        masked(delivery.target),
        notice.event,
        notice.title,
        state,
        delivery.tries,
        delivery.error,
    )


def _newest_first(deliveries: Iterable[PastDelivery]) -> list[PastDelivery]:
    return list(deliveries)[::-1]


def _document(past: PastDelivery) -> dict[str, object]:
    return {
        "at": timestamp(past.at),
        "to": past.to,
        "event": past.event,
        "title": past.title,
        "state": past.state,
        "tries": past.tries,
        "error": past.error or None,
    }


def _shared(end: JobEnd) -> str | None:
    """Return what the jobs of a sweep share besides the moment of their submission."""
    return None if end.sweep is None else end.sweep[0]
