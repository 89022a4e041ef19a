"""Orders that are due now, and the last order about each attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache, partial

import msgspec
from msgspec.structs import replace

from grassq.broker.inbox import Orders
from grassq.core import reconcile
from grassq.core.job_options import Pairs
from grassq.core.messages import Order, Start
from grassq.core.model import AttemptId, Job
from grassq.core.planner.board import Board
from grassq.errors import StoreUnavailable
from grassq.store.relational import Store

log = logging.getLogger(__name__)

ENVIRONMENTS_CACHED = 256


class Dispatch:
    """Gives orders to online workers, and repeats them until the workers answer."""

    def __init__(self, store: Store) -> None:
        self._sent: dict[AttemptId, reconcile.Sent] = {}
        self._environment = lru_cache(ENVIRONMENTS_CACHED)(partial(_environment, store))

    def forget(self, attempt: AttemptId) -> None:
        """Forget the last order about an attempt."""
        self._sent.pop(attempt, None)

    def forget_all(self) -> None:
        """Forget the last orders about all attempts."""
        self._sent.clear()

    def orders(self, board: Board, mono: float) -> Orders:
        """Return the orders that are due; no start is due while an unreconciled worker may hold newer attempts."""
        orders: Orders = []
        stands_still = bool(board.unreconciled or board.awaits(mono))
        for name, worker in board.workers.items():
            if not worker.online:
                continue
            for job, told in reconcile.due(board, name, self._sent, mono):
                if (stands_still or worker.unrecorded) and told.order is None:
                    continue
                try:
                    order = self._order(board, job, told)
                except StoreUnavailable as error:
                    # The batch is on disk and its answers hold; the order stays due.
                    log.error("order_not_given job=%s error=%s", job.id, error)
                    continue
                self._sent[job.attempt_id] = told
                orders.append((name, order))
        return orders

    def due_in_s(self, board: Board, mono: float) -> Iterator[float]:
        """Yield the seconds until each order to an online worker must be repeated."""
        for name, worker in board.workers.items():
            if worker.online:
                yield from reconcile.due_in_s(board, name, self._sent, mono)

    def _order(self, board: Board, job: Job, told: reconcile.Sent) -> Order:
        if told.order is None:
            return self._start(board, job)
        predecessor = board.predecessor(job)
        if predecessor is not None and told.at - told.since >= board.prefetch.policy.wait_s:
            board.prefetch.note_slow(predecessor)
        return told.order

    def _start(self, board: Board, job: Job) -> Start:
        """Return the order to start a job."""
        where = job.placement
        assert where is not None
        if where.after is not None and board.predecessor(job) is None:
            # The predecessor has ended, so the worker need not wait for it.
            where = replace(where, after=None)
        env = self._environment(job.spec.env_digest)
        # Notices are sent by the broker alone, and a target may hold a secret.
        spec = job.spec
        spec = job.spec
        if spec.notify or spec.parameters or spec.dependencies or spec.tags or spec.unique or spec.sweep is not None:
            spec = replace(
                spec, notify=(), parameters=(), dependencies=(), tags=(), unique=None, sweep=None, point=None
            )
        return Start(job.id, job.attempt, spec, where, env, job.name, job.rerun_of)


def _environment(store: Store, digest: bytes) -> Pairs:
    body = store.environment(digest)
    return () if body is None else msgspec.msgpack.decode(body, type=Pairs)
