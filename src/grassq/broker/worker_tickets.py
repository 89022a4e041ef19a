"""Which connection is the worker it says it is: tickets that change at every welcome, so that a copy is found out."""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.errors import Refused
from grassq.store.base import WorkerRecord

TICKET_BYTES = 16


class CopiedHome(Refused):
    """A worker showed a ticket that another connection of its name has used up."""


def admit(batch: Batch, worker: str, shown: str, *, restored: bool = False) -> str:
    """Check the ticket a worker shows and give the one it shall show next.

    `restored`: the worker has seen more of this store's history than the store itself, so its ticket may be newer too.
    """
    worker_record = worker_record_of(batch, worker)
    known = {worker_record.ticket} | ({worker_record.next_ticket} - {""})
    if shown not in known and not restored:
        raise CopiedHome(
            f"worker {worker} shows an old ticket: a copy of its home is at work, or was; stop one of them,"
            " and `grass join --anew CODE` on the machine that shall go on"
        )
    # Never the same twice: two who were given one ticket could not be told apart.
    given = secrets.token_hex(TICKET_BYTES)
    batch.changes.worker_records[worker] = replace(worker_record, ticket=shown, next_ticket=given)
    return given


def kept(batch: Batch, worker: str, ticket: str) -> None:
    """The worker has its new ticket on disk: the old one is void."""
    worker_record = worker_record_of(batch, worker)
    if ticket and ticket == worker_record.next_ticket:
        batch.changes.worker_records[worker] = replace(worker_record, ticket=ticket, next_ticket="")


def worker_record_of(batch: Batch, worker: str) -> WorkerRecord:
    """What the broker keeps of a worker, as of now in this batch."""
    return batch.changes.worker_records.get(worker) or batch.worker_records.get(worker) or WorkerRecord()
