"""Orders: what workers are to be told now, and what each was told last."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from grassq.broker.inbox import Orders
from grassq.broker.seals import sealed
from grassq.core import reconcile
from grassq.core.board import Board
from grassq.core.messages import Start
from grassq.core.model import AttemptId, Job, Pairs, State
from grassq.errors import StoreUnavailable
from grassq.store.base import Store

log = logging.getLogger(__name__)

ENVIRONMENTS_CACHED = 256


class Dispatch:
    """Tells workers in touch what they should do, and again until they answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Of the store, read with it.
        self.seal_key = b""
        self._sent: dict[AttemptId, reconcile.Sent] = {}
        self._environments: OrderedDict[bytes, Pairs] = OrderedDict()

    def forget(self, attempt: AttemptId) -> None:
        """What was told of an attempt counts no more."""
        self._sent.pop(attempt, None)

    def forget_all(self) -> None:
        """Nothing that was told counts any more."""
        self._sent.clear()

    def orders(self, board: Board, mono: float) -> Orders:
        """What is due now; no starts while a worker that has not spoken may know better, as after a backup."""
        orders: Orders = []
        hushed = bool(board.doubts or board.awaits(mono))
        for name, station in board.stations.items():
            if not station.online:
                continue
            for job in reconcile.due(board, name, self._sent, mono):
                if hushed and not job.cancel_requested:
                    continue
                try:
                    order = reconcile.stop_of(job) if job.cancel_requested else self._start(job)
                except StoreUnavailable as error:
                    # The batch is on disk and its answers are true; an order not given now is due again.
                    log.error("order_not_given job=%s error=%s", job.id, error)
                    continue
                self._sent[job.attempt_id] = reconcile.told(job, mono)
                orders.append((name, order))
        return orders

    def due_in_s(self, board: Board, mono: float) -> Iterator[float]:
        """In how many seconds each order is to be repeated, of workers in touch."""
        for name, station in board.stations.items():
            for job in board.held_by(name) if station.online else ():
                if job.state is State.PLACED or job.cancel_requested:
                    last = self._sent.get(job.attempt_id)
                    yield (last.at if last else mono) + reconcile.RESEND_S - mono

    def _start(self, job: Job) -> Start:
        assert job.placement is not None
        env = self._environment(job.spec.env_digest)
        start = Start(job.id, job.attempt, job.spec, job.placement, env, job.name, job.rerun_of)
        return sealed(start, self.seal_key)

    def _environment(self, digest: bytes) -> Pairs:
        if digest in self._environments:
            self._environments.move_to_end(digest)
            return self._environments[digest]
        body = self._store.environment(digest)
        pairs = msgspec.msgpack.decode(body, type=Pairs) if body is not None else ()
        self._environments[digest] = pairs
        if len(self._environments) > ENVIRONMENTS_CACHED:
            self._environments.popitem(last=False)
        return pairs
