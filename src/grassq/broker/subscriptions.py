"""Who attends which queue: told of every committed move of its jobs, in order, within a bound."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from grassq.broker.batch import Batch
from grassq.core.model import FINAL, ID_MAX, Job
from grassq.core.names import shown
from grassq.core.syntax.selectors import ByQueue
from grassq.errors import NotFound, Refused

#: Who attends at one time, whatever queues.
SUBSCRIBERS_MAX = 1000
#: Moves nobody has taken yet: of one who falls further behind nothing more is kept, and he has to begin anew.
NEWS_MAX = 10_000
#: How many jobs are read at a time for one who begins.
PAGE = 500

#: Above every id.
_ALL = ID_MAX + 1

#: The first and the last of some ids that follow one another.
Range = tuple[int, int]


class Subscriber:
    """One who attends a queue. First it reads what there is, page by page; of those jobs it is told from then on."""

    def __init__(self, queue: str, first: int, wake: Callable[[], None], over: Iterable[Range] = ()) -> None:
        """`wake` is called when there is news, or when too much was missed; of those `over` the end is known."""
        self.queue = queue
        self.has_missed = False
        self._news: list[Job] = []
        self._wake = wake
        self._first = first
        self._over = sorted(over)
        #: Jobs below this id were shown.
        self.upto = self._skip(first)
        self._before = (first, 0)
        self._page_batch: list[Job] | None = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether all jobs there were have been shown."""
        return self.upto == _ALL

    def page(self, batch: Batch, first: int) -> list[Job]:
        """The next jobs from an id on, as they are by now; whatever happens to them afterwards is told."""
        removed = batch.changes.removed
        stored = batch.store.jobs(ByQueue(self.queue, first), PAGE)
        known = (batch.current(job) for job in stored if job.id not in removed)
        jobs = [job for job in known if job.state not in FINAL or self._skip(job.id) == job.id]
        # Of the very batch: told of what happened to others in it before this moment, and to these after it.
        self._before, self._page_batch = (first, len(batch.told)), batch.told
        self.upto = self._skip(stored[-1].id + 1) if len(stored) == PAGE else _ALL
        if self.is_up_to_date:
            new = batch.changes.inserted.values()
            jobs += [job for job in new if job.spec.queue == self.queue and job.id >= first]
        return jobs

    def roll(self, batch: Batch, first: int) -> tuple[list[int], int]:
        """Those of the next jobs from an id on that have not ended, and from where on to ask for more; 0 at the end."""
        removed = batch.changes.removed
        stored = batch.store.jobs(ByQueue(self.queue, self._skip(first)), PAGE)
        jobs = [batch.current(job) for job in stored if job.id not in removed]
        is_last = len(stored) < PAGE
        if is_last:
            jobs += [job for job in batch.changes.inserted.values() if job.spec.queue == self.queue and job.id >= first]
        return [job.id for job in jobs if job.state not in FINAL], 0 if is_last else stored[-1].id + 1

    def take(self) -> list[Job]:
        """The news since the last time, in order: jobs as each was after a move."""
        news, self._news = self._news, []
        return news

    def _skip(self, id_: int) -> int:
        """The next id, from one on, whose end is not known."""
        at = bisect_left(self._over, (id_ + 1,))
        return max(id_, self._over[at - 1][1] + 1) if at else id_

    def _tell(self, told: Sequence[Job], torn: bool) -> None:
        first, mark = self._before if told is self._page_batch else (0, 0)
        self._page_batch = None
        for at, job in enumerate(told):
            if job.spec.queue == self.queue and self._first <= job.id < (first if at < mark else self.upto):
                self._news.append(job)
        if torn or len(self._news) > NEWS_MAX:
            self.has_missed = True
            self._news.clear()
        if self._news or self.has_missed:
            self._wake()


class Subscriptions:
    """Everybody who attends. Changed on the event loop only; the engine's thread looks which queues are attended."""

    def __init__(self) -> None:
        self.queues: dict[str, list[Subscriber]] = {}
        self._count = 0

    def enter(self, subscriber: Subscriber) -> None:
        """Somebody attends from now on; tells nothing before its first page."""
        if self._count >= SUBSCRIBERS_MAX:
            raise Refused(f"{SUBSCRIBERS_MAX:,} attend queues already; end some first")
        self._count += 1
        self.queues.setdefault(subscriber.queue, []).append(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        """Somebody attends no more."""
        others = self.queues[subscriber.queue]
        others.remove(subscriber)
        self._count -= 1
        if not others:
            del self.queues[subscriber.queue]

    def is_attended(self, queue: str) -> bool:
        """Whether anybody attends a queue."""
        return queue in self.queues

    def tell(self, told: Sequence[Job], torn: bool = False) -> None:
        """These moves are on disk; `torn` when it is not known which."""
        for queue in [*self.queues] if torn else {job.spec.queue for job in told}:
            for subscriber in self.queues.get(queue, ()):
                subscriber._tell(told, torn)


def worker_record(batch: Batch, queue: str) -> tuple[bool, bool]:
    """Whether a queue is offered by anybody, and whether it has jobs that will still run, or do."""
    return queue in batch.board.queue_names(), batch.board.unfinished(queue) > 0


def check_queue(batch: Batch, queue: str) -> None:
    """A queue that can be attended is offered, or has jobs: one that is gone still has what became of them."""
    if queue not in batch.board.queue_names() and not batch.store.jobs(ByQueue(queue), 1):
        raise NotFound(f"there is no queue {shown(queue)}; `grass show` lists them")
