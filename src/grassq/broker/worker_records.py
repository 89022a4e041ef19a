"""What the broker itself records of workers: their tickets, and since when they offer their queues.

A ticket proves that a connection is the worker it names. It changes at every welcome, so that a copy is detected.
"""

from __future__ import annotations

import logging
import secrets

from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core import worker_checks
from grassq.core.model import WorkerInfo
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.planner.board import Board
from grassq.core.planner.workers import WorkerState
from grassq.errors import Refused
from grassq.store.base import WorkerRecord

log = logging.getLogger(__name__)

TICKET_BYTES = 16


class CopiedHome(Refused):
    """A worker presented a ticket that another connection of the same name has used up."""


def admit(batch: Batch, worker: str, shown: str, *, restored: bool = False) -> str:
    """Check the ticket that a worker presents, and return its next ticket.

    `restored`: the worker has seen more of the store's history than the store itself, so its ticket may be newer too.
    """
    worker_record = worker_record_of(batch, worker)
    known = {worker_record.ticket} | ({worker_record.next_ticket} - {""})
    if shown not in known and not restored:
        raise CopiedHome(
            f"worker {worker} shows an old ticket: a copy of its home is or was in use; stop one of them, and "
            "run `grass join --again` with a new code on the machine to keep"
        )
    # Never the same ticket twice: two workers with one ticket could not be told apart.
    given = secrets.token_hex(TICKET_BYTES)
    batch.changes.worker_records[worker] = replace(worker_record, ticket=shown, next_ticket=given)
    return given


def kept(batch: Batch, worker: str, ticket: str) -> None:
    """Make the old ticket void: the worker has the new one on disk."""
    worker_record = worker_record_of(batch, worker)
    if ticket and ticket == worker_record.next_ticket:
        batch.changes.worker_records[worker] = replace(worker_record, ticket=ticket, next_ticket="")


def load(
    board: Board, stored: WorkerInfo, known: WorkerState | None, record: WorkerRecord, *, now: float, began: float
) -> None:
    """Put a stored worker on the board, with what is known of it from before and what the broker records of it.

    A worker that was not known is offline, and counts as heard when the broker began.
    """
    # A store of an earlier release may hold what a worker's connection would refuse now.
    info, fault = worker_checks.usable(stored)
    if fault is not None:
        log.warning("worker_without_queues worker=%s why=%s", info.name, fault)
    online, heard = (known.online, known.heard) if known is not None else (False, began)
    board.set_worker(info, online=online, now=now, heard=heard)
    worker = board.workers[info.name]
    worker.since = known.since if known is not None else now
    worker.unrecorded = known.unrecorded if known is not None else set()
    worker.earlier_boots = known.earlier_boots if known is not None else {}
    board.note_boots(info.name, heard)
    worker.drained, worker.offered = record.drained, record.offered


def note_offered(batch: Batch, info: WorkerInfo) -> None:
    """Store since when a worker offers each of its queues; `default` is left out: every worker has it."""
    if info.name in batch.board.roles.trusted:
        return  # its offers count before those of all others
    record = worker_record_of(batch, info.name)
    queues = [offer.queue for offer in info.offers if offer.queue != DEFAULT_QUEUE]
    offered = {queue: record.offered.get(queue, batch.store.number) for queue in queues}
    if offered != record.offered:
        batch.changes.worker_records[info.name] = replace(record, offered=offered)
        batch.board.workers[info.name].offered = offered


def worker_record_of(batch: Batch, worker: str) -> WorkerRecord:
    """Return the broker's record of a worker, with the changes of this batch."""
    return batch.changes.worker_records.get(worker) or batch.worker_records.get(worker) or WorkerRecord()
