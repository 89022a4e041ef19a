"""What arrives at a broker, what comes of it, and which of it must be heard again when a batch fails."""

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
    """A user's action or question, and who waits for the answer."""

    handler: Handler
    changing: bool = True
    key: str | None = None
    #: How to answer from what a key stored, when a commit's fate was unclear.
    recall: Callable[[Submission], object] | None = None
    #: It takes no time worth mentioning, however much is stored.
    short: bool = False


class FromWorker(Struct, eq=False):
    """Something a worker said."""

    worker: str
    message: WorkerMessage | Silent


Message = Call | FromWorker


class Misbehaved(Exception):
    """A handler refused after it had changed something: a bug of ours that must not touch anybody else's request."""

    def __init__(self, call: Call, error: GrassError) -> None:
        super().__init__(str(error))
        self.call = call
        self.error = error


#: What to tell workers, in this order.
Orders = list[tuple[str, Order]]


class BrokerStatus(Struct, frozen=True):
    """What others than the engine's thread may know of the broker, as of the last batch."""

    store_id: str
    history: StoreHistory
    #: Grows whenever queues or machines change, so that what was read of them can be kept until then.
    generation: int
    #: Why nothing can be stored; None while commits succeed.
    read_only: str | None


class Effects(Struct):
    """What to do now that the batch is on disk."""

    answers: list[tuple[Call, object]]
    orders: Orders
    #: Committed changes, in order.
    changed: list[JobChange] = []
    #: Decide again at once: there was more to plan than one batch takes.
    again: bool = False
    #: The commit may or may not have happened: subscribers must re-read.
    must_reread: bool = False


def said_once(messages: Sequence[Message]) -> list[FromWorker]:
    """What workers say only once, and must be heard again if its batch fails.

    A fresh hello makes everything that worker said before it void, and of its latest news the last counts: so what is
    kept while the store is away has a bound.
    """
    kept: list[FromWorker] = []
    for said in messages:
        if not isinstance(said, FromWorker) or isinstance(said.message, Report):
            continue
        fresh = isinstance(said.message, Hello) and said.message.fresh
        kept = [k for k in kept if k.worker != said.worker or not (fresh or _is_same_news(k, said))]
        kept.append(said)
    return kept


def _is_same_news(earlier: FromWorker, later: FromWorker) -> bool:
    match earlier.message, later.message:
        case (Silent(), Silent()):
            return True
        case (Hello(), Hello()):
            return not earlier.message.fresh
        case _:
            return False
