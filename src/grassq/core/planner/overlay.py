"""The ledgers of a board's workers, copied when first written, so that planning changes nothing."""

from __future__ import annotations

from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.fit import FreeView
from grassq.core.resources.ledger import Ledger


class Overlay:
    """The ledgers as they are now and as the jobs that a plan starts leave them."""

    def __init__(self) -> None:
        self._ledgers: dict[str, tuple[Ledger, dict[str, Ledger]]] = {}

    def free_view(self, worker: WorkerState, queue: str) -> FreeView:
        """Return what is free for a job of the queue."""
        machine, offers = self._ledgers.get(worker.info.name) or (worker.machine, worker.offers)
        return FreeView(machine, offers[queue])

    def take(self, worker: WorkerState, queue: str, allocation: Allocation) -> None:
        """Count an allocation of a job of the queue as taken."""
        for ledger in self._own(worker, queue):
            ledger.take(allocation)

    def give(self, worker: WorkerState, queue: str, allocation: Allocation) -> None:
        """Count an allocation of a job of the queue as free again."""
        for ledger in self._own(worker, queue):
            ledger.give(allocation)

    def copy(self) -> Overlay:
        """Return the same ledgers to go on with apart from these."""
        other = Overlay()
        for name, (machine, offers) in self._ledgers.items():
            other._ledgers[name] = machine.copy(), {queue: ledger.copy() for queue, ledger in offers.items()}
        return other

    def _own(self, worker: WorkerState, queue: str) -> tuple[Ledger, ...]:
        name = worker.info.name
        if name not in self._ledgers:
            self._ledgers[name] = self._copies(worker)
        machine, offers = self._ledgers[name]
        return (machine, offers[queue]) if queue in offers else (machine,)

    def _copies(self, worker: WorkerState) -> tuple[Ledger, dict[str, Ledger]]:
        return worker.machine.copy(), {queue: ledger.copy() for queue, ledger in worker.offers.items()}


class EmptyOverlay(Overlay):
    """The ledgers of the same workers as if none of their jobs ran."""

    def free_view(self, worker: WorkerState, queue: str) -> FreeView:
        """Return what is free for a job of the queue beside what was taken in this overlay."""
        self._own(worker, queue)
        return super().free_view(worker, queue)

    def _copies(self, worker: WorkerState) -> tuple[Ledger, dict[str, Ledger]]:
        return worker.machine.emptied(), {queue: ledger.emptied() for queue, ledger in worker.offers.items()}
