"""The query of a subscriber to a queue, the jobs of the queue page by page, and which later changes are news."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import gt
from typing import NamedTuple

from aiohttp import web

from grassq.broker.batch import Batch
from grassq.broker.job_change import JobChange, change_of
from grassq.core.model import ATTEMPT_MAX, FINAL, ID_MAX, Job
from grassq.core.names import check_name, shown
from grassq.core.syntax.numbers import is_number
from grassq.core.syntax.selectors import ByQueue
from grassq.errors import BadInput, NotFound
from grassq.web.logs.tail import OFFSET_MAX
from grassq.web.requests import number

#: Jobs in a page.
PAGE = 500
#: Above every id.
_ALL = ID_MAX + 1
#: Offsets in one request.
OFFSETS_MAX = 1000
#: Ranges of ended jobs in one request.
OVER_MAX = 1000

#: The largest job, attempt and offset; and the largest first and last job.
_PLACE = (ID_MAX, ATTEMPT_MAX, OFFSET_MAX)
_RANGE = (ID_MAX, ID_MAX)

#: The first and the last of consecutive ids.
Range = tuple[int, int]


class SubscriptionQuery(NamedTuple):
    """Start job id, per-job log offsets, and id ranges of jobs that the client knows have ended."""

    queue: str
    first: int
    offsets: dict[int, tuple[int, int]]
    over: list[Range]


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

    def unfinished(self, batch: Batch, first: int) -> tuple[list[int], int] | None:
        """Return jobs from an id on that have not ended, and the id from which to ask for more; 0 at the end.

        None while workers may still report jobs that the store has forgotten.
        """
        if batch.board.unreconciled or batch.board.awaits(batch.mono):
            return None
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


def read_query(request: web.Request) -> SubscriptionQuery:
    """Return the queue and the query of a request."""
    offsets = _read("offsets", request.query.get("offsets", ""), ":", _PLACE, OFFSETS_MAX)
    over = _read("over", request.query.get("over", ""), "-", _RANGE, OVER_MAX)
    return SubscriptionQuery(
        check_name(request.match_info["queue"], "queue name"),
        number(request, "from", 1, ID_MAX),
        {job: (attempt, offset) for job, attempt, offset in offsets},
        [(first, last) for first, last in over],
    )


def _read(name: str, text: str, mark: str, most: tuple[int, ...], count: int) -> list[list[int]]:
    """Return groups of numbers joined by a mark, with commas between the groups: 7:1:4096,9:1:0 or 6-1000,1003-1003."""
    found: list[list[int]] = []
    parts = text.split(",", count) if text else []
    if len(parts) > count:
        raise BadInput(f"{name}: more than {count:,}")
    for part in parts:
        words = part.split(mark)
        numbers = [int(word) for word in words if is_number(word)]
        if len(words) != len(most) or len(numbers) != len(most) or any(map(gt, numbers, most)):
            raise BadInput(f"invalid {name}: {part[:40]!r}; it takes {mark.join('N' * len(most))}")
        found.append(numbers)
    return found
