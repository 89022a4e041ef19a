"""The messages that arrive at a broker, the effects of a batch, and the messages to keep when a batch fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.job_change import JobChange
from grassq.core.messages import Hello, Order, Report, Silent, StoreHistory, WorkerMessage
from grassq.errors import GrassError
from grassq.store.base import Submission

Handler = Callable[[Batch], object]


class Call(Struct, eq=False):
    """A user's action or question that waits for an answer."""

    handler: Handler
    changing: bool = True
    key: str | None = None
    #: Makes the answer from what was stored under the key, when it was unclear whether the commit had happened.
    recall: Callable[[Submission], object] | None = None
    #: The handler takes a few milliseconds at most, however much is stored.
    short: bool = False


class FromWorker(Struct, eq=False):
    """A message of a worker."""

    worker: str
    message: WorkerMessage | Silent


Message = Call | FromWorker


class Misbehaved(Exception):
    """A handler changed something before it refused: a bug that must not affect the other requests of the batch."""

    def __init__(self, call: Call, error: GrassError) -> None:
        super().__init__(str(error))
        self.call = call
        self.error = error


#: Orders by worker, in the order of sending.
Orders = list[tuple[str, Order]]


class BrokerStatus(Struct, frozen=True):
    """What other threads than the engine's may know of the broker, as of the last batch."""

    store_id: str
    history: StoreHistory
    #: Grows whenever queues or machines change, so that other threads can cache what they read of them.
    generation: int
    #: Why nothing can be stored; None while commits succeed.
    read_only: str | None


class Effects(Struct):
    """What to do once the batch is on disk."""

    answers: list[tuple[Call, object]]
    orders: Orders
    #: Committed changes, in order.
    changed: list[JobChange] = []
    #: Decide again at once: there was more to plan than one batch takes.
    again: bool = False
    #: The commit may or may not have happened: subscribers must re-read.
    must_reread: bool = False


def said_once(messages: Sequence[Message]) -> list[FromWorker]:
    """Return the messages that workers send only once and that must be processed again if their batch fails.

    A fresh hello voids everything its worker said before, and of several equal messages only the last is kept. So the
    number of kept messages is bounded.
    """
    kept: list[FromWorker] = []
    for said in messages:
        if not isinstance(said, FromWorker) or isinstance(said.message, Report):
            continue
        kept = [k for k in kept if k.worker != said.worker or not _voids(said.message, k.message)]
        kept.append(said)
    return kept


def _voids(later: WorkerMessage | Silent, earlier: WorkerMessage | Silent) -> bool:
    return _is_fresh(later) or (type(later) is type(earlier) and not _is_fresh(earlier))


def _is_fresh(message: WorkerMessage | Silent) -> bool:
    return isinstance(message, Hello) and message.fresh
