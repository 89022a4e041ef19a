"""What the board knows that is needed to read a submission: the queues, and which offer of each one counts.

Several workers may offer a queue, and any of them may be in the wrong hands. So one offer decides how lines for the
queue are read: the definition at the broker, else the offer of the broker's own worker, else the offer that came first.
The offers of later workers change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from grassq.core.model import Offer, QueueTemplate
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.planner.board import Board
from grassq.core.planner.workers import WorkerRoles, WorkerState
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.enqueue import Enqueue, KnownQueue, SubmitContext


class QueueSnapshot(Struct, frozen=True):
    """What the board knows that is needed to read a submission."""

    #: By queue: the offer that decides how lines are read.
    offers: dict[str, Offer] = {}
    #: By queue: what the words of a line are read against.
    queues: dict[str, KnownQueue] = {}
    #: The resources of any worker, and those of every worker.
    resources: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    roles: WorkerRoles = WorkerRoles()
    #: Queues that have slots on every worker that offers them.
    slotted: frozenset[str] = frozenset()
    #: Queues offered only by workers on this disk: their jobs' programs are checked at submission.
    local_queues: frozenset[str] = frozenset()
    #: Queues that a worker offers; jobs of other queues wait for one.
    offered: frozenset[str] = frozenset()

    def takes_slots(self, queue: str) -> bool:
        """Tell whether the jobs of a queue take slots on every worker."""
        return queue in self.slotted

    def has_prefix(self, queue: str) -> bool:
        """Tell whether a queue has a command of its own."""
        offer = self.offers.get(queue)
        return offer is not None and bool(offer.prefix)

    def may_name(self, queue: str) -> frozenset[str]:
        """Return the resources that a placeholder in a line for this queue surely means."""
        known = self.queues.get(queue)
        offer = self.offers.get(queue)
        if offer is not None and offer.slots:
            # A job gets what its slot has, whatever it asks for.
            return frozenset()
        return self.shared if known is None else known.resources

    def runs_here(self, queue: str, worker: str | None) -> bool:
        """Tell whether only a worker on this disk can run the job."""
        return queue in self.local_queues if worker is None else self.roles.is_here(worker) and queue in self.offers

    def split(
        self,
        words: Sequence[bytes],
        is_program: Callable[[bytes], bool],
        *,
        is_remote: bool = False,
        script_words: int = 0,
    ) -> Enqueue:
        """Split the words of an `enqueue`, of which a script gave the first ones, given a test for programs."""
        context = SubmitContext(self.queues, self.resources, self.shared, is_program, is_remote, script_words)
        return enqueue_syntax.split_enqueue(words, context)


def snapshot_of(board: Board) -> QueueSnapshot:
    """Return what the board knows now."""
    offers: dict[str, Offer] = {}
    queues: dict[str, KnownQueue] = {}
    slotted, elsewhere, offered = set(), set(), set()
    for queue in sorted(board.queue_names()):
        workers = sorted(board.offering(queue), key=lambda worker: _precedence(board.roles, worker, queue))
        template = board.templates.get(queue)
        said = [offer for worker in workers if (offer := worker.offer(queue)) is not None]
        if workers:
            offered.add(queue)
        if template is not None and not said:
            said = [template.offer]
        if all(offer.slots for offer in said):
            slotted.add(queue)
        if template is not None or any(worker.info.name not in board.roles.shares_disk for worker in workers):
            elsewhere.add(queue)
        if template is not None:
            offers[queue], queues[queue] = template.offer, _defined_at_broker(template, workers)
        else:
            name = workers[0].info.name
            said_by = None if name in board.roles.trusted else name
            offers[queue] = said[0]
            # Being the first to offer `default` means nothing, because every worker has it.
            counted = workers if queue == DEFAULT_QUEUE and said_by is not None else workers[:1]
            queues[queue] = KnownQueue(bool(said[0].prefix), _shared(counted), said_by)
    return QueueSnapshot(
        offers,
        queues,
        frozenset(board.resource_names()),
        _shared(_deciding(board)),
        board.roles,
        frozenset(slotted),
        frozenset(offers.keys() - elsewhere),
        frozenset(offered),
    )


def _precedence(roles: WorkerRoles, worker: WorkerState, queue: str) -> tuple[object, ...]:
    """Return a key by which the worker whose offer decides comes first."""
    name, offer = worker.info.name, worker.offer(queue)
    is_odd = queue == DEFAULT_QUEUE and offer is not None and bool(offer.prefix or offer.slots or offer.wrap)
    return name not in roles.trusted, is_odd, worker.offered_since(queue), name


def _deciding(board: Board) -> list[WorkerState]:
    """Return the workers whose resources all lines may name: the broker's own, or all if it has none."""
    own = [worker for name, worker in board.workers.items() if name in board.roles.trusted]
    return own or list(board.workers.values())


def _defined_at_broker(template: QueueTemplate, workers: Sequence[WorkerState]) -> KnownQueue:
    """Return a queue of the broker; beside its own limits, amounts are what all its workers have."""
    takers = [worker for worker in workers if worker.own_offer(template.offer.queue) is None]
    return KnownQueue(bool(template.offer.prefix), _shared(takers).union(template.offer.limits))


def _shared(workers: Sequence[WorkerState]) -> frozenset[str]:
    """Return the resources that all of some workers have."""
    return frozenset.intersection(*(worker.resource_names() for worker in workers)) if workers else frozenset()
