"""What a timeline needs of the board: its lanes, the attempts that run, and earlier attempts of unfinished jobs."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from grassq.broker import tokens
from grassq.broker.batch import Batch
from grassq.broker.summary.devices import device_documents
from grassq.broker.summary.fleet import workers_of
from grassq.broker.views import Document
from grassq.core.model import FINAL, HOLDING, Job, Outcome, State
from grassq.core.outcome import in_words
from grassq.core.resources.amounts import ONE, Allocation, amount_number
from grassq.core.resources.capacity import Pool
from grassq.core.syntax.resource_names import CPU
from grassq.core.timeline.blocks import LaneBlock, LaneKey, parts_of
from grassq.store.base import Attempt

#: Unfinished jobs whose earlier attempts are read.
RETRIED_MAX = 100
#: Characters of a command.
COMMAND_CHARS = 200
#: What a block has instead of the state of a job that is suspended and keeps its devices.
SUSPENDED = "suspended"

#: Blocks, each with its lane.
Placed = list[tuple[LaneKey, LaneBlock]]


class Present(Struct, frozen=True):
    """The board as a timeline shows it."""

    now: float
    seq: int
    #: What is known of each lane that there is now; and of the lanes that are shown only if something is on them.
    lanes: dict[LaneKey, Document]
    used_lanes: dict[LaneKey, Document]
    blocks: Placed
    jobs: dict[int, Document]


def present(batch: Batch) -> Present:
    """Return the lanes, the attempts that run, and earlier ones of jobs that have not ended."""
    held = [job for job in batch.board.holding.values() if batch.board.counts(job)]
    blocks = [placed for job in held for placed in _running(job, batch.now)]
    retried = _retried(batch)
    for job in retried:
        for attempt in batch.store.attempts(job.id):
            blocks += _earlier(job, attempt)
    return Present(batch.now, batch.seq, *_lanes(batch), blocks, job_infos(batch, [*held, *retried]))


def job_infos(batch: Batch, jobs: Iterable[Job]) -> dict[int, Document]:
    """Return what a timeline tells of jobs."""
    jobs = list(jobs)
    names = tokens.names(batch) if any(job.token for job in jobs) else {}
    return {job.id: _info(job, names) for job in jobs}


def fetched_infos(batch: Batch, ids: list[int]) -> dict[int, Document]:
    """Return what a timeline tells of the jobs with these ids that exist."""
    return job_infos(batch, batch.fetch(ids).values())


def blocks_on(worker: str, allocation: Allocation, block: LaneBlock) -> Placed:
    """Return a block on each lane that an allocation is drawn on."""
    return [
        (LaneKey(worker, resource, id_), _with_amount(block, amount)) for resource, id_, amount in parts_of(allocation)
    ]


def _with_amount(block: LaneBlock, amount: float) -> LaneBlock:
    return LaneBlock(block.job, block.attempt, block.kind, block.state, block.begin, block.end, amount, block.cause)


def _lanes(batch: Batch) -> tuple[dict[LaneKey, Document], dict[LaneKey, Document]]:
    """Return the lanes of devices, and of workers without devices; and those of other workers, shown if used."""
    always: dict[LaneKey, Document] = {}
    used: dict[LaneKey, Document] = {}
    for device in device_documents(batch):
        key = LaneKey(str(device["worker"]), str(device["resource"]), str(device["id"]))
        always[key] = {name: device[name] for name in ("worth", "online", "drained", "others")}
    with_devices = {key.worker for key in always}
    for worker in workers_of(batch):
        cpus = worker.machine.supply.get(CPU)
        worth = cpus.amount / ONE if isinstance(cpus, Pool) else 1.0
        state: Document = {"worth": worth, "online": worker.online, "drained": worker.drained, "others": 0.0}
        lanes = always if worker.info.name not in with_devices else used
        lanes[LaneKey(worker.info.name, CPU)] = state
    return always, used


def _running(job: Job, now: float) -> Placed:
    assert job.placement is not None
    state = SUSPENDED if job.is_suspended else str(job.state)
    block = LaneBlock(job.id, job.attempt, "running", state, job.started or now, None, 0.0)
    return blocks_on(job.placement.worker, job.placement.allocation, block)


def _retried(batch: Batch) -> list[Job]:
    """Return jobs that have not ended and had an attempt before, as far as the board has them whole."""
    found = []
    for job in batch.board.jobs.values():
        if job.attempt > (1 if job.state in HOLDING else 0) and job.state not in FINAL:
            found.append(job)
            if len(found) >= RETRIED_MAX:
                break
    return found


def _earlier(job: Job, attempt: Attempt) -> Placed:
    if attempt.started is None or attempt.ended is None:
        return []
    cause = cause_of(attempt.outcome, attempt.exit_code, attempt.signal)
    block = LaneBlock(job.id, attempt.number, "past", str(State.FAILED), attempt.started, attempt.ended, 0.0, cause)
    return blocks_on(attempt.placement.worker, attempt.placement.allocation, block)


def cause_of(outcome: Outcome | str | None, code: int | None, signal: int | None) -> str | None:
    """Return how a failed attempt ended, in few words."""
    return in_words(outcome, code, signal, short=True) or None


def _info(job: Job, names: dict[str, str]) -> Document:
    words = b" ".join(job.spec.command)[: 4 * COMMAND_CHARS].decode("utf-8", "replace")
    return {
        "name": job.name,
        "command": words[:COMMAND_CHARS],
        "queue": job.spec.queue,
        "request": {name: amount_number(amount) for name, amount in job.spec.request},
        "project": job.project,
        "by": None if job.token is None else names.get(job.token, job.token),
    }
