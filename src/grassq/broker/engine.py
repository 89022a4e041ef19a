"""The engine: drain the inbox, decide, commit once, and only then answer and send orders."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from grassq.broker.actions.bulk import BulkResult, Next
from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.broker.inbox import INBOX_MAX, Call, Effects, FromWorker, Inbox, Message, bug_in_words
from grassq.broker.subscriptions import Subscriptions
from grassq.core.messages import Order, Report, Silent
from grassq.errors import Deposed, Gone, GrassError, Refused, StoreUnavailable
from grassq.gc_pause import gc_paused
from grassq.store.base import Submission

log = logging.getLogger(__name__)

WAKE_MIN_S = 0.05
#: A small batch is decided on the event loop: a thread switch would take longer. After a batch that took more than
#: SLOW_S, because the disk is busy, batches go to the thread for WARY_S.
SLOW_S, WARY_S = 0.02, 1.0
BRIEF_MAX = 64
#: With a store that another broker may take over, a worker's lease is confirmed within this time after a batch.
LEADS_S = 10.0

T = TypeVar("T")
SendOrder = Callable[[Order], None]
Step = Callable[[Batch], BulkResult | Next]


class Engine:
    """The loop around a decider. One thread owns board and store; messages that arrive meanwhile are the next batch."""

    def __init__(self, make_decider: Callable[[], Decider]) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        # The thread that uses the decider makes it: an SQLite connection belongs to one thread.
        self.decider = self._thread.submit(make_decider).result()
        #: The only part of the decider that other threads may read; replaced after each batch.
        self.status = self.decider.status
        self.subscriptions = Subscriptions(self.status.history.position.incarnation)
        self._links: dict[str, SendOrder] = {}
        self._inbox = Inbox()
        self._answers: dict[Call, asyncio.Future[object]] = {}
        self._arrived = asyncio.Event()
        self._decided_at = time.monotonic()
        self._wary_until = 0.0
        self._ended: BaseException | None = None

    def connect(self, worker: str, send: SendOrder) -> None:
        """Send orders for a worker through this function from now on."""
        self._links[worker] = send

    def disconnect(self, worker: str, send: SendOrder, heard: float) -> None:
        """Note that a worker's connection has ended, unless another has replaced it; `heard`: when it last spoke."""
        if self._links.get(worker) == send:
            del self._links[worker]
            self.post(FromWorker(worker, Silent(heard)))

    def post(self, message: Message) -> bool:
        """Put a message into the inbox; return False when it is full, and the worker's connection is then ended."""
        if self._ended is not None or not self._inbox.put(message):
            return False
        self._arrived.set()
        return True

    @property
    def leads(self) -> bool:
        """Whether this broker certainly owns its store now, so that it may confirm leases."""
        if self._ended is not None:
            return False
        if self.decider.beat_s is None:
            return True
        return self.decider.read_only is None and time.monotonic() - self._decided_at < LEADS_S

    async def change(
        self,
        handler: Callable[[Batch], T],
        *,
        key: str | None = None,
        recall: Callable[[Submission], T] | None = None,
        short: bool = False,
    ) -> T:
        """Run a changing handler in the next batch; return its answer once that batch is on disk.

        `short` says that the handler takes a few milliseconds at most.
        """
        return await self._call(Call(handler, True, key, recall, short))

    async def change_in_steps(self, start: Step, stepped: Callable[[], Awaitable[None]]) -> BulkResult:
        """Change many jobs, one step a batch; `stepped` is awaited after each step except the last.

        A step whose commit failed is run once more: the step finds out whether it was stored. Steps that were done
        before a failure stay done, and the error says how many.
        """
        answer = await self._step(Next(start))
        while isinstance(answer, Next):
            await stepped()
            answer = await self._step(answer)
        return answer

    async def _step(self, step: Next) -> BulkResult | Next:
        try:
            try:
                return await self.change(step.handler)
            except StoreUnavailable:
                return await self.change(step.handler)
        except Refused as error:
            if not step.done:
                raise
            raise type(error)(f"{error}; {step.done} of {step.total} jobs were done before") from error

    async def read(self, handler: Callable[[Batch], T], *, short: bool = False) -> T:
        """Run a reading handler in the next batch that has a turn of the caller.

        Whatever reads many jobs reads them in pages. `short` says that the handler takes a few milliseconds at most.
        """
        return cast(T, await self._call(Call(handler, False, short=short)))

    async def _call(self, call: Call) -> T:
        if self._ended is not None:
            raise _no_answer(self._ended)
        if not self.post(call):
            raise Refused(f"{INBOX_MAX:,} requests are waiting already; try again in a moment")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._answers[call] = future
        return cast(T, await future)

    async def run(self) -> None:
        """Work until cancelled; raise Deposed when another broker has taken the store over."""
        try:
            await self._work()
        finally:
            # Nothing else answers the calls that wait.
            self._end(sys.exception())

    async def _work(self) -> None:
        while True:
            await self._something_to_do()
            messages = self._inbox.take()
            if not self._inbox:
                self._arrived.clear()
            try:
                effects = await self._decide(messages)
            except Deposed:
                raise
            except Exception as error:
                # The top of the loop: a bug in one batch must not end the daemon. The log has the cause.
                log.exception("batch_failed messages=%s", len(messages))
                effects = _failed(messages, error)
            self._decided_at = time.monotonic()
            self.status = self.decider.status
            self._act(effects)
            # Let other tasks run, also after a batch that awaited nothing.
            await asyncio.sleep(0)

    async def _decide(self, messages: list[Message]) -> Effects:
        began = time.monotonic()
        if began < self._wary_until or not self.decider.is_brisk or not _are_brief(messages):
            return await asyncio.wrap_future(self._thread.submit(self._process, messages))
        effects = self.decider.process(messages)
        if time.monotonic() - began > SLOW_S:
            self._wary_until = began + WARY_S
        return effects

    def _process(self, messages: list[Message]) -> Effects:
        with gc_paused():
            return self.decider.process(messages)

    async def _something_to_do(self) -> None:
        if self._arrived.is_set():
            return
        wake = self.decider.next_wake()
        loop = asyncio.get_running_loop()
        timer = None if wake is None else loop.call_later(max(wake, WAKE_MIN_S), self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _act(self, effects: Effects) -> None:
        for call, answer in effects.answers:
            future = self._answers.pop(call)
            if future.done():
                continue
            if isinstance(answer, GrassError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        for worker, order in effects.orders:
            if (send := self._links.get(worker)) is not None:
                send(order)
        self.subscriptions.publish(effects.changed, effects.must_reread)
        if effects.machines_changed or effects.must_reread:
            self.subscriptions.tell_of_machines()
        if effects.again:
            self._arrived.set()

    def _end(self, error: BaseException | None) -> None:
        """Answer every call that waits, and accept nothing more."""
        self._ended = error or RuntimeError("it ended")
        self._inbox.clear()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(_no_answer(self._ended))
        self._answers.clear()

    async def close(self) -> None:
        """Close the store on its thread, and end the thread."""
        await asyncio.wrap_future(self._thread.submit(self.decider.close))
        self._thread.shutdown()


def _are_brief(messages: list[Message]) -> bool:
    if len(messages) > BRIEF_MAX:
        return False
    return all(m.short if isinstance(m, Call) else isinstance(m.message, Report) for m in messages)


def _failed(messages: list[Message], error: Exception) -> Effects:
    """Return the effects of a batch that met a bug: nothing was stored, and the decider reloads its board first."""
    failure = bug_in_words(error)
    return Effects([(m, failure) for m in messages if isinstance(m, Call)], [], must_reread=True)


def _no_answer(error: BaseException) -> Gone:
    if isinstance(error, Deposed):
        return Gone(f"{error}; ask again, the other broker answers")
    return Gone(f"the daemon ends ({type(error).__name__}); ask again, or see daemon.log")
