"""Subscriptions: committed changes of jobs, sent in order and within a bound to every subscriber."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from msgspec import Struct

from grassq.broker.inbox import BROKER, OWNER, WORKS_FOR
from grassq.broker.job_change import JobChange
from grassq.errors import Gone, Refused

#: The changes that are kept for subscribers that come back; after older positions a subscriber must re-read.
RING_MAX = 32_768
#: Changes that a subscriber has not taken yet. Above this number all are dropped and the subscriber must re-read.
PENDING_MAX = RING_MAX
#: The most open subscriptions of one caller to queues and to everything: of the owner, and of a token.
SUBSCRIBERS_MAX, TOKEN_SUBSCRIBERS_MAX = 1000, 16
#: The most jobs that all subscriptions of one caller name together: of the owner, and of a token.
SUBSCRIBED_JOBS_MAX, TOKEN_SUBSCRIBED_JOBS_MAX = 1_000_000, 100_000

#: A position in the changes: the run of the broker, and the number of the last change seen.
Position = tuple[str, int]
#: A job's id, or a queue's name, or None for everything.
Key = int | str | None


class Filter(Struct, frozen=True):
    """The changes that a subscriber wants: of some jobs, of one queue, or of all; with `ended`, only ends of jobs."""

    jobs: frozenset[int] | None = None
    queue: str | None = None
    ended: bool = False

    @property
    def keys(self) -> Iterable[Key]:
        """What a subscriber with this filter is listed under."""
        return (self.queue,) if self.jobs is None else self.jobs

    def wants(self, change: JobChange) -> bool:
        """Return whether a change is wanted."""
        if self.ended and not change.has_ended:
            return False
        if self.queue is not None:
            return change.queue == self.queue
        return self.jobs is None or not self.jobs.isdisjoint(_ids(change, len(self.jobs), self.jobs))


class Share(Struct):
    """What the subscriptions of one caller take together."""

    #: How many jobs they name, and how many of them name no job.
    jobs: int = 0
    count: int = 0


class Subscription:
    """One subscriber's changes. Close it when done. Used from the event loop only."""

    def __init__(self, owner: Subscriptions, wanted: Filter, wake: Callable[[], None]) -> None:
        self.wanted = wanted
        #: The subscriber, whose share this subscription is counted in.
        self.caller = WORKS_FOR.get()
        #: Each job ends once, so a subscriber to the ends of named jobs never falls behind.
        names_ends = wanted.ended and wanted.jobs is not None
        self._most = len(wanted.jobs or ()) if names_ends else PENDING_MAX
        self._owner = owner
        self._pending: list[JobChange] = []
        #: Whether changes were dropped since the last `take`.
        self.must_reread = False
        self._arrived = asyncio.Event()
        self._wake = wake

    def take(self) -> list[JobChange] | None:
        """Return the changes since the last call, in order; None if some were dropped: the subscriber must re-read."""
        pending, self._pending = self._pending, []
        lost, self.must_reread = self.must_reread, False
        self._arrived.clear()
        return None if lost else pending

    async def next(self, timeout_s: float | None = None) -> list[JobChange] | None:
        """Wait for changes and take them; return [] after `timeout_s` seconds, raise Gone when the daemon ends."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return []
        if self._owner._is_closed:
            raise Gone("the daemon ends; ask again")
        return self.take()

    def keep(self, jobs: Iterable[int]) -> None:
        """Keep only these of the named jobs."""
        self._owner._keep(self, frozenset(jobs))

    def close(self) -> None:
        """End this subscription."""
        self._owner._close(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, change: JobChange) -> None:
        if len(self._pending) >= self._most:
            self._drop()
        elif not self.must_reread:
            self._pending.append(change)

    def _drop(self) -> None:
        self._pending.clear()
        self.must_reread = True

    def _tell(self) -> None:
        self._arrived.set()
        self._wake()


def position_text(position: Position) -> str:
    """Return a position as documents have it: `EPOCH.SEQ`."""
    epoch, seq = position
    return f"{epoch}.{seq}"


class Subscriptions:
    """Every subscription, and a ring of the last changes. Used from the event loop only."""

    def __init__(self, epoch: str) -> None:
        """Make an empty ring. `epoch` names this run of the broker: another run numbers its changes anew."""
        self._epoch = epoch
        self._seq = 0
        self._ring: deque[JobChange] = deque(maxlen=RING_MAX)
        #: Changes up to this number have left the ring.
        self._dropped = 0
        #: Tuples, as mostly there is one: a dict for each of 100,000 jobs would take five times the memory.
        self._by_key: dict[Key, tuple[Subscription, ...]] = {}
        self._shares: dict[str, Share] = {}
        #: Called when workers, queues or pauses may have changed.
        self._of_machines: dict[Callable[[], None], None] = {}
        self._is_closed = False

    @property
    def position(self) -> Position:
        """The position after the last committed change."""
        return self._epoch, self._seq

    def since(self, position: Position) -> list[JobChange] | None:
        """Return the committed changes after a position, in order; None if some have left the ring."""
        epoch, seq = position
        if epoch != self._epoch or not self._dropped <= seq <= self._seq:
            return None
        # From the newest to the oldest, as mostly only a few are new.
        return [*takewhile(lambda change: change.seq > seq, reversed(self._ring))][::-1]

    def subscribe(
        self, wanted: Filter, since: Position | None = None, wake: Callable[[], None] = lambda: None
    ) -> Subscription:
        """Send committed changes from now on, or those after `since`; `wake` is called when there are some."""
        subscription = Subscription(self, wanted, wake)
        self._take_share(subscription)
        for key in wanted.keys:
            self._by_key[key] = (*self._by_key.get(key, ()), subscription)
        if since is not None:
            self._resume(subscription, since)
        return subscription

    def _take_share(self, subscription: Subscription) -> None:
        """Count a subscription for its caller; raise Refused if the caller has no more to take."""
        caller, jobs = subscription.caller, subscription.wanted.jobs
        share = self._shares.get(caller) or Share()
        is_token = caller not in (BROKER, OWNER)
        whose = "of your token" if is_token else "of yours"
        if jobs is None:
            most = TOKEN_SUBSCRIBERS_MAX if is_token else SUBSCRIBERS_MAX
            if share.count >= most:
                raise Refused(f"{most:,} event streams {whose} are open already; close some first")
            share.count += 1
        else:
            most = TOKEN_SUBSCRIBED_JOBS_MAX if is_token else SUBSCRIBED_JOBS_MAX
            if share.jobs + len(jobs) > most:
                counts = f"{share.jobs:,} already, {len(jobs):,} more, limit {most:,}"
                raise Refused(f"requests {whose} wait for too many jobs ({counts}); wait for fewer at a time")
            share.jobs += len(jobs)
        self._shares[caller] = share

    def _give_back(self, caller: str, jobs: int = 0, count: int = 0) -> None:
        share = self._shares[caller]
        share.jobs, share.count = share.jobs - jobs, share.count - count
        if share == Share():
            del self._shares[caller]

    def watched(self, jobs: Iterable[int]) -> list[int]:
        """Return those of some jobs that a subscriber has named."""
        return [job for job in jobs if job in self._by_key]

    def publish(self, changes: Sequence[JobChange], must_reread: bool = False) -> None:
        """Send committed changes; `must_reread` says that it is unknown what was committed."""
        if must_reread:
            self._ring.clear()
            self._dropped = self._seq
            for subscription in self._everybody():
                subscription._drop()
                subscription._tell()
        if not changes:
            return
        self._seq = changes[-1].seq
        self._ring.extend(changes)
        self._dropped = self._ring[0].seq - 1
        told: dict[Subscription, None] = {}
        for change in changes:
            for subscription in self._subscribers(change):
                if not subscription.wanted.ended or change.has_ended:
                    subscription._put(change)
                    told[subscription] = None
        for subscription in told:
            subscription._tell()

    def watch_machines(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when workers, queues or pauses may have changed; return what ends this."""
        self._of_machines[wake] = None
        return lambda: self._of_machines.pop(wake, None)

    def tell_of_machines(self) -> None:
        """Wake those that watch workers, queues and pauses."""
        for wake in list(self._of_machines):
            wake()

    def close(self) -> None:
        """End every subscription with Gone: the daemon ends."""
        self._is_closed = True
        for subscription in self._everybody():
            subscription._drop()
            subscription._tell()

    def _resume(self, subscription: Subscription, since: Position) -> None:
        if (later := self.since(since)) is None:
            subscription._drop()
        for change in later or ():
            if subscription.wanted.wants(change):
                subscription._put(change)
        if subscription._pending or subscription.must_reread:
            subscription._arrived.set()

    def _subscribers(self, change: JobChange) -> dict[Subscription, None]:
        found: dict[Subscription, None] = {}
        for key in (None, change.queue, *_ids(change, len(self._by_key), self._by_key)):
            found.update(dict.fromkeys(self._by_key.get(key, ())))
        return found

    def _everybody(self) -> dict[Subscription, None]:
        return {subscription: None for some in self._by_key.values() for subscription in some}

    def _unlist(self, subscription: Subscription, keys: Iterable[Key]) -> None:
        for key in keys:
            if others := tuple([each for each in self._by_key[key] if each is not subscription]):
                self._by_key[key] = others
            else:
                del self._by_key[key]

    def _keep(self, subscription: Subscription, jobs: frozenset[int]) -> None:
        wanted = subscription.wanted.jobs or frozenset()
        self._unlist(subscription, wanted - jobs)
        subscription.wanted = Filter(wanted & jobs, ended=subscription.wanted.ended)
        if gone := len(wanted - jobs):
            self._give_back(subscription.caller, jobs=gone)

    def _close(self, subscription: Subscription) -> None:
        wanted = subscription.wanted
        if wanted.jobs is not None:
            self._keep(subscription, frozenset())
        elif subscription in self._by_key.get(wanted.queue, ()):
            self._unlist(subscription, wanted.keys)
            self._give_back(subscription.caller, count=1)


def _ids(change: JobChange, count: int, known: Iterable[Key]) -> Iterable[int]:
    """Return the ids of a change; of a long range only the ids that are among the `count` known ones."""
    if change.last - change.job <= count:
        return range(change.job, change.last + 1)
    return [job for job in known if isinstance(job, int) and change.job <= job <= change.last]
