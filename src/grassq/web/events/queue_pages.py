"""The jobs of a queue when a subscription begins, page by page, and which later changes are news."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from grassq.broker.batch import Batch
from grassq.broker.job_change import JobChange, change_of
from grassq.core.model import FINAL, ID_MAX, Job
from grassq.core.names import shown
from grassq.core.syntax.selectors import ByQueue
from grassq.errors import NotFound

#: Jobs in a page.
PAGE = 500
#: Above every id.
_ALL = ID_MAX + 1

#: The first and the last of consecutive ids.
Range = tuple[int, int]


class QueuePages:
    """Reads the jobs of a queue from an id on, once. A change is news if the page of its job was read before it."""

    def __init__(self, queue: str, first: int, over: Iterable[Range] = ()) -> None:
        """Leave out ended jobs in the ranges `over`, which the subscriber knows to have ended."""
        self.queue = queue
        self._first = first
        self._over = sorted(over)
        #: Jobs below this id were read.
        self.upto = self._skip(first)
        #: The first id of each page, and the number of the last change before the page was read.
        self._begins: list[int] = []
        self._read_at: list[int] = []

    @property
    def is_complete(self) -> bool:
        """Whether every page was read."""
        return self.upto == _ALL

    def page(self, batch: Batch) -> list[JobChange]:
        """Read the next page: jobs in their present state."""
        first = self.upto
        stored, more = self._stored(batch, first)
        jobs = [job for job in stored if job.state not in FINAL or self._skip(job.id) == job.id]
        self._begins.append(first)
        self._read_at.append(batch.seq)
        self.upto = self._skip(more) if more else _ALL
        return [change_of(job, batch.seq, batch.now) for job in jobs]

    def unfinished(self, batch: Batch, first: int) -> tuple[list[int], int]:
        """Return jobs from an id on that have not ended, and the id from which to ask for more; 0 at the end."""
        stored, more = self._stored(batch, self._skip(first))
        return [job.id for job in stored if job.state not in FINAL], more

    def is_news(self, change: JobChange) -> bool:
        """Return whether a change came after the page with its job was read."""
        if not self._first <= change.job < self.upto or change.event in ("submitted", "removed"):
            return False
        page = bisect_right(self._begins, change.job) - 1
        return page < 0 or change.seq > self._read_at[page]

    def _stored(self, batch: Batch, first: int) -> tuple[list[Job], int]:
        """Return the next jobs, at most PAGE and those of this batch, and the id from which there are more, or 0."""
        stored = batch.store.jobs(ByQueue(self.queue, first), PAGE)
        removed = batch.changes.removed
        jobs = [batch.current(job) for job in stored if job.id not in removed]
        more = stored[-1].id + 1 if len(stored) == PAGE else 0
        if not more:
            jobs += [job for job in batch.changes.inserted.values() if job.spec.queue == self.queue and job.id >= first]
        return jobs, more

    def _skip(self, id_: int) -> int:
        """Return the first id, from this one on, that is not in `over`."""
        at = bisect_left(self._over, (id_ + 1,))
        return max(id_, self._over[at - 1][1] + 1) if at else id_


def queue_status(batch: Batch, queue: str) -> tuple[bool, bool]:
    """Return whether a worker offers a queue, and whether the queue has unfinished jobs that are not held."""
    return queue in batch.board.queue_names(), batch.board.unfinished(queue) > 0


def check_queue(batch: Batch, queue: str) -> None:
    """Raise NotFound for a queue that no worker offers and that has no jobs."""
    if queue not in batch.board.queue_names() and not batch.store.jobs(ByQueue(queue), 1):
        raise NotFound(f"there is no queue {shown(queue)}; `grass show` lists them")
