"""The messages that arrive at a broker, their order, the effects of a batch, and what to keep when a batch fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from msgspec import Struct, field

from grassq.broker.batch import Batch
from grassq.broker.job_change import JobChange
from grassq.core.fair_queue import FairQueue
from grassq.core.messages import Hello, Order, Report, Silent, StoreHistory, WorkerMessage
from grassq.errors import Deposed, GrassError, GuardFailed, StoreUnavailable
from grassq.store.base import Submission

log = logging.getLogger(__name__)

Handler = Callable[[Batch], object]

#: The most messages that a batch takes.
BATCH_MAX = 1000
INBOX_MAX = 100_000
#: Hellos and silences are sent once, so they still find space when the inbox is full for all other messages.
INBOX_FULL = 2 * INBOX_MAX

#: Callers beside tokens: the broker itself, the owner on the unix socket, and everybody without a token.
BROKER, OWNER, STRANGER = "", "owner", "stranger"
#: The caller that the current task works for: one of these, or the id of a token. The access check sets it for each
#: request, so that no handler can forget it.
WORKS_FOR: ContextVar[str] = ContextVar("works_for", default=BROKER)


class Call(Struct, eq=False):
    """A user's action or question that waits for an answer."""

    handler: Handler
    changing: bool = True
    key: str | None = None
    #: Makes the answer from what was stored under the key, when it was unclear whether the commit had happened.
    recall: Callable[[Submission], object] | None = None
    #: The handler takes a few milliseconds at most, however much is stored.
    short: bool = False
    #: Calls that are not short are taken in turns, one of each caller.
    caller: str = field(default_factory=WORKS_FOR.get)


class FromWorker(Struct, eq=False):
    """A message of a worker."""

    worker: str
    message: WorkerMessage | Silent


Message = Call | FromWorker


class Inbox:
    """The messages that wait. A batch has the brief ones and at most one call that may take long.

    After a batch with a long call comes one without, if brief messages wait. So a brief message waits for one long call
    at most, and a long call for one of each other caller. A call is never decided before a brief message that came
    earlier.
    """

    def __init__(self) -> None:
        self._brief: list[Message] = []
        self._long: FairQueue[Call] = FairQueue()
        self._was_long = False

    def __len__(self) -> int:
        return len(self._brief) + len(self._long)

    def put(self, message: Message) -> bool:
        """Add a message; return False when the inbox is full."""
        rare = isinstance(message, FromWorker) and isinstance(message.message, Hello | Silent)
        if len(self) >= (INBOX_FULL if rare else INBOX_MAX):
            return False
        if isinstance(message, Call) and not message.short:
            self._long.put(message.caller, message)
        else:
            self._brief.append(message)
        return True

    def take(self) -> list[Message]:
        """Remove and return the messages of the next batch."""
        messages, self._brief = self._brief[:BATCH_MAX], self._brief[BATCH_MAX:]
        takes_long = bool(self._long) and not self._brief and not (self._was_long and messages)
        if takes_long:
            messages.append(self._long.take())
        self._was_long = takes_long
        return messages

    def clear(self) -> None:
        """Remove every message."""
        self._brief.clear()
        self._long.clear()


class Misbehaved(Exception):
    """A message failed, and the board may be half changed: the batch is decided anew without this message."""

    def __init__(self, message: Message, error: GrassError) -> None:
        super().__init__(str(error))
        self.message = message
        self.error = error


def answer_of(batch: Batch, call: Call) -> object:
    """Return the answer of a call, or its error; raise Misbehaved if the call may have changed something and failed."""
    before = batch.next_id, batch.changes.outline
    try:
        return call.handler(batch)
    except Deposed:
        raise
    except (StoreUnavailable, GuardFailed) as error:
        # Whether the store is in trouble or this call only is found out when the board is read anew.
        raise Misbehaved(call, unavailable(error)) from error
    except GrassError as error:
        failure, is_safe = error, True
    except Exception as error:
        # The top of one call: a bug in it must not fail the other calls of the batch.
        log.exception("call_failed")
        failure, is_safe = bug_in_words(error), not call.changing
    if not is_safe or before != (batch.next_id, batch.changes.outline):
        raise Misbehaved(call, failure)
    return failure


def unavailable(error: GrassError) -> StoreUnavailable:
    """Return an error of the store as an answer to a call."""
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))


def bug_in_words(error: Exception) -> GrassError:
    """Return a bug as an answer to a call."""
    return GrassError(f"the daemon failed on this ({type(error).__name__}: {error}); see daemon.log")


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
    #: How many jobs have a folder on this machine and are not stored; 0 once the user has accepted that.
    lost_jobs: int = 0


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
    #: Workers, queues or pauses may have changed.
    machines_changed: bool = False


def is_of_machines(message: Message) -> bool:
    """Tell whether a message may change what is known of a worker, beside its jobs."""
    return isinstance(message, FromWorker) and not isinstance(message.message, Report)


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
