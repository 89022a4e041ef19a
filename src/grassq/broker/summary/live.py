"""What an open page is sent: some jobs as documents, and the lists that every page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from msgspec import Struct

from grassq.broker import views
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import short_command, timestamp
from grassq.broker.summary import fleet
from grassq.broker.summary.devices import device_documents
from grassq.broker.views import Document


class Picture(Struct, frozen=True):
    """Parts of the whole, and jobs by id; None for a job that does not exist."""

    parts: dict[str, Document]
    jobs: dict[int, Document | None]
    #: The token that each of them was submitted with; None for the owner.
    by: dict[int, str | None]


def picture(batch: Batch, parts: Iterable[str], ids: Iterable[int]) -> Picture:
    """Return the named parts and these jobs, as they are now."""
    ids = list(ids)
    jobs: dict[int, Document | None] = dict.fromkeys(ids)
    found = batch.fetch(ids)
    documents = views.documents(batch, [*found.values()])
    for document in documents:
        document["command"] = short_command(document["command"])
    jobs |= zip(found, cast("list[Document]", documents), strict=True)
    return Picture({name: PARTS[name](batch) for name in parts}, jobs, {id_: job.spec.by for id_, job in found.items()})


def _totals(batch: Batch) -> Document:
    return {"totals": batch.store.totals()}


def _devices(batch: Batch) -> Document:
    return {"devices": device_documents(batch)}


def _queues(batch: Batch) -> Document:
    return {"queues": fleet.queue_documents(batch), "paused": batch.board.paused}


def _workers(batch: Batch) -> Document:
    # A worker that is away has been so for longer at every look: the page counts from `since`, told in whole seconds.
    return {
        "workers": [
            fleet.worker_document(batch, worker)
            | {"silent_s": None}
            | ({} if worker.online else {"since": timestamp(round(batch.now - worker.silent_s(batch.mono)))})
            for worker in fleet.workers_of(batch)
        ]
    }


#: The parts by name, each with the keys that it has in a frame.
PARTS: Mapping[str, Callable[[Batch], Document]] = {
    "totals": _totals,
    "devices": _devices,
    "queues": _queues,
    "workers": _workers,
}
