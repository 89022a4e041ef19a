"""The outbox: a lane for each target, which sends one notice after the other and tries again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from grassq.core.notices.notice import Notice
from grassq.core.notices.targets import Target, masked
from grassq.notify.senders import NoticeSender, SendResult

log = logging.getLogger(__name__)

#: Notices that wait for one target; above this number the oldest is dropped and counted.
LANE_MAX = 1000
#: Targets with notices that wait; a notice for one more target fails at once.
LANES_MAX = 64
#: How long a stopping daemon waits for lanes that were cancelled: they only have a process to kill.
CLOSE_S = 2.0
#: How many of the last calls before a bug are logged.
PLACES_LOGGED = 4

State = Literal["sent", "failed", "dropped"]


class RetryPolicy(Struct, frozen=True):
    """How often a notice is tried: the first delay doubles up to the largest one."""

    first_s: float = 1.0
    most_s: float = 300.0
    tries: int = 10
    #: A notice that is older is not tried again.
    total_s: float = 3600.0

    def delay_s(self, tries: int, asked: float | None) -> float:
        """Return the seconds before the next try; the receiver may ask for more."""
        return min(self.most_s, max(self.first_s * 2.0 ** (tries - 1), asked or 0.0))


class NoticeDelivery(Struct, eq=False):
    """One notice for one target."""

    #: What the delivery is known by, also after a restart; empty for one that is not kept.
    key: str
    target: Target
    notice: Notice
    cwd: bytes = b""
    #: The stored end of a job from which it was made.
    number: int = 0
    made: float = 0.0
    tries: int = 0
    error: str = ""


Done = Callable[[NoticeDelivery, State], None]


class Lane:
    """The notices for one target. Ends when none is left."""

    def __init__(self, target: Target, sender: NoticeSender, policy: RetryPolicy, done: Done) -> None:
        self.waiting: deque[NoticeDelivery] = deque()
        self._target = target
        self._sender = sender
        self._policy = policy
        self._done = done
        self.task: asyncio.Task[None] | None = None

    def put(self, delivery: NoticeDelivery) -> None:
        """Add a notice; drop the oldest that is not being sent if there are too many."""
        if len(self.waiting) >= LANE_MAX:
            oldest = self.waiting[1]
            del self.waiting[1]
            oldest.error = f"more than {LANE_MAX:,} notices wait for this target"
            self._done(oldest, "dropped")
        self.waiting.append(delivery)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self.waiting:
            delivery = self.waiting[0]
            try:
                result = await self._sender.send(self._target, delivery.notice, delivery.cwd)
            except Exception as error:
                # The top of the loop: a bug must not stop the lane. The words of the error may hold the URL, so the
                # log has only its kind and its place.
                place = "".join(traceback.format_tb(error.__traceback__, -PLACES_LOGGED))
                log.error("notice_bug to=%s error=%s\n%s", masked(self._target), type(error).__name__, place)
                result = SendResult(f"could not be sent ({type(error).__name__})")
            delivery.tries += 1
            delivery.error = result.error
            if result.error and (delay := self._delay_s(delivery, result)) is not None:
                await asyncio.sleep(delay)
                continue
            self.waiting.popleft()
            if result.error:
                log.warning("notice_failed to=%s error=%s", masked(self._target), result.error)
            self._done(delivery, "failed" if result.error else "sent")

    def _delay_s(self, delivery: NoticeDelivery, result: SendResult) -> float | None:
        """Return the seconds before the next try; None if the notice is given up."""
        delay = self._policy.delay_s(delivery.tries, result.after_s)
        age = time.monotonic() + delay - delivery.made
        if result.for_good or delivery.tries >= self._policy.tries or age > self._policy.total_s:
            return None
        return delay


class Outbox:
    """All lanes. Used from the event loop only; `done` is called for each notice, once."""

    def __init__(self, sender: NoticeSender, done: Done, policy: RetryPolicy | None = None) -> None:
        self._sender = sender
        self._done = done
        self._policy = policy or RetryPolicy()
        self._lanes: dict[Target, Lane] = {}
        #: How many notices were dropped since the daemon started.
        self.dropped = 0

    def put(self, delivery: NoticeDelivery) -> None:
        """Send a notice in the background."""
        delivery.made = time.monotonic()
        lane = self._lanes.get(delivery.target)
        if lane is None:
            self._lanes = {target: lane for target, lane in self._lanes.items() if lane.waiting}
            if len(self._lanes) >= LANES_MAX:
                delivery.error = f"notices for {LANES_MAX} other targets wait already"
                self._ended(delivery, "dropped")
                return
            lane = self._lanes[delivery.target] = Lane(delivery.target, self._sender, self._policy, self._ended)
        lane.put(delivery)

    @property
    def waiting(self) -> list[NoticeDelivery]:
        """Every notice that waits or is being sent."""
        return [delivery for lane in self._lanes.values() for delivery in lane.waiting]

    def _ended(self, delivery: NoticeDelivery, state: State) -> None:
        if state == "dropped":
            self.dropped += 1
            # At 1, 2, 4, 8, ...: a flood of notices must not become a flood of lines.
            if self.dropped.bit_count() == 1:
                log.warning("notice_dropped to=%s dropped=%s", masked(delivery.target), self.dropped)
        self._done(delivery, state)

    async def close(self) -> None:
        """Stop at once; what was not sent is made again from the store by the next daemon."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None and not lane.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait(tasks, timeout=CLOSE_S)
