"""What users see: jobs, queues and workers as documents, and why a job waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from grassq.broker.batch import Batch
from grassq.broker.selection import SELECTED_MAX, select
from grassq.core import placement
from grassq.core.board import Board, shape_of
from grassq.core.model import FINAL, Job, Offer, State
from grassq.core.resources import Capacity, Pool, allocation_json, amount_number, amount_text, request_text
from grassq.core.room import Spot, free_json, supply_json
from grassq.core.selectors import Selector
from grassq.core.selectors import State as InState
from grassq.core.slots import slots_in
from grassq.core.stations import Station

SCHEMA = 1
NEXT_SHOWN = 100
RECENT_SHOWN = 100
RECENT_S = 86400.0
STORY_SHOWN = 20
#: A worker that has been out of touch for less is probably on its way back: its jobs are not called unreachable yet.
UNREACHABLE_S = 5.0

Document = dict[str, object]


def show(batch: Batch, selectors: Sequence[Selector]) -> Document:
    """The queue as it is: chosen jobs, or what runs, what is next and what ended lately."""
    more = False
    if selectors:
        jobs = select(batch, selectors)
        more = len(jobs) >= SELECTED_MAX
    else:
        jobs, more = _glance(batch)
    return {
        "schema": SCHEMA,
        "jobs": documents(batch, jobs),
        "queues": [queue_document(batch, s, offer.queue) for s in _stations(batch) for offer in s.info.offers],
        "workers": [worker_document(batch, station) for station in _stations(batch)],
        "totals": batch.store.totals(),
        "paused": sorted(batch.board.paused),
        "restored": sorted(batch.board.doubts),
        "more": more,
    }


def _glance(batch: Batch) -> tuple[list[Job], bool]:
    parked: list[Job] = []
    for state in (State.HELD, State.WAITING):
        stored = batch.store.jobs(InState(state), NEXT_SHOWN + 1)
        parked += [job for job in map(batch.current, stored) if job.state in (State.HELD, State.WAITING)]
    following = batch.fetch(batch.board.next_ids(NEXT_SHOWN)).values()
    ended = batch.store.recent(batch.now - RECENT_S, RECENT_SHOWN)
    shown = [*ended, *batch.board.holding.values(), *following, *parked[:NEXT_SHOWN]]
    more = batch.board.queued() > NEXT_SHOWN or len(parked) > NEXT_SHOWN or len(ended) == RECENT_SHOWN
    return sorted({job.id: job for job in shown}.values(), key=lambda job: job.id), more


def _stations(batch: Batch) -> list[Station]:
    return [batch.board.stations[name] for name in sorted(batch.board.stations)]


def documents(batch: Batch, jobs: Sequence[Job]) -> list[Document]:
    """Jobs as data, with what is known of their workers now."""
    return [job_document(job, unreachable(batch, job), lacking(batch, job)) for job in jobs]


def lacking(batch: Batch, job: Job) -> str | None:
    """What a job waits for, in today's words: its own are those of when it came."""
    leader = batch.board.leader(job) if job.state is State.PLACED else None
    if leader is not None:
        return f"starts when job {leader.id} ends, on its devices"
    if job.state is not State.WAITING or job.ready_at is not None:
        return None
    return batch.board.reasons.get(shape_of(job))


def unreachable(batch: Batch, job: Job) -> str | None:
    """Why nobody can say how a job stands, or None: its worker is silent, and what runs there runs on."""
    station = batch.board.stations.get(job.placement.worker) if job.placement and job.state not in FINAL else None
    if station is None or (silent_s := station.silent_s(batch.mono)) < UNREACHABLE_S:
        return None
    ends = "; the kill reaches it when it is back" if job.cancel_requested else ""
    return f"worker {station.info.name} has been silent for {silent_s:.0f} s; what it runs, runs on{ends}"


def job_document(job: Job, silent: str | None = None, lacking: str | None = None) -> Document:
    """One job as data; `silent` says why its worker cannot be reached, `lacking` what it waits for."""
    where = job.placement
    return {
        "id": job.id,
        "name": job.name,
        "queue": job.spec.queue,
        "state": str(job.state),
        "reason": silent or lacking or job.reason,
        "unreachable": silent is not None,
        "command": [word.decode("utf-8", "backslashreplace") for word in job.spec.command],
        "shell": job.spec.shell is not None,
        "request": {name: amount_number(amount) for name, amount in job.spec.request},
        "allocation": allocation_json(where.allocation) if where else None,
        "worker": where.worker if where else None,
        "attempt": job.attempt,
        "pid": job.pid,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "outcome": None if job.outcome is None else str(job.outcome),
        "error": job.error,
        "rerun_of": job.rerun_of,
        "priority": job.priority,
        "cwd": job.spec.cwd.decode("utf-8", "backslashreplace"),
        "split": job.spec.split,
        "cancel_requested": job.cancel_requested,
        "created": moment(job.created),
        "started": moment(job.started),
        "finished": moment(job.finished),
    }


def moment(at: float | None) -> str | None:
    """A time in RFC 3339, UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def queue_document(batch: Batch, station: Station, queue: str) -> Document:
    """One queue on one worker as data."""
    offer = station.offer(queue)
    assert offer is not None
    spot = station.spot(queue)
    return {
        "name": queue,
        "worker": station.info.name,
        "paused": batch.board.is_paused(queue),
        "limits": supply_json(_as_declared(offer, spot)),
        "free": free_json(spot, spot.offer.supply),
        "slots": _slot_documents(batch.board, station, offer),
        "order": offer.order if offer.slots else None,
        "prefix": [word.decode("utf-8", "backslashreplace") for word in offer.prefix],
        "cwd": None if offer.cwd is None else offer.cwd.decode("utf-8", "backslashreplace"),
        "running": sum(job.spec.queue == queue for job in batch.board.held_by(station.info.name)),
        "queued": batch.board.queued(queue),
    }


def _slot_documents(board: Board, station: Station, offer: Offer) -> list[Document]:
    """The slots of a queue as they were listed, and who holds each now."""
    holders: dict[int, int] = {}
    for job in board.held_by(station.info.name) if offer.slots else ():
        if job.spec.queue == offer.queue and job.placement is not None and board.leader(job) is None:
            holders.update(dict.fromkeys(slots_in(job.placement.allocation), job.id))
    return [
        {"name": slot.name, "gpu": list(slot.ids), "job": holders.get(index)} for index, slot in enumerate(offer.slots)
    ]


def _as_declared(offer: Offer, spot: Spot) -> Capacity:
    """A queue's limits: sums as they were typed, devices as they were found."""
    return {name: limit if isinstance(limit, Pool) else spot.offer.supply[name] for name, limit in offer.limits.items()}


def worker_document(batch: Batch, station: Station) -> Document:
    """One worker as data."""
    capacity = station.machine.supply
    silent_s = station.silent_s(batch.mono)
    return {
        "name": station.info.name,
        "online": station.online,
        "drained": station.drained,
        "labels": list(station.info.labels),
        "silent_s": None if station.online else round(silent_s, 3),
        "jobs": len(batch.board.held_by(station.info.name)),
        "capacity": supply_json(capacity),
        "free": free_json(Spot(station.machine, station.machine), capacity),
        # Of one out of touch: since when nothing was heard of it.
        "since": moment(station.since if station.online else batch.now - silent_s),
        "detecting": station.info.detecting,
    }


def why(batch: Batch, selectors: Sequence[Selector]) -> Document:
    """Why each job is where it is."""
    return {"jobs": [_why(batch, job) for job in select(batch, selectors)]}


def _why(batch: Batch, job: Job) -> Document:
    blockers = placement.explain(batch.board, job, batch.mono) if job.state is State.QUEUED else []
    story = batch.store.story(job.id)[-STORY_SHOWN:]
    return {
        "id": job.id,
        "state": str(job.state),
        "reason": unreachable(batch, job) or lacking(batch, job) or job.reason,
        "story": [{"at": moment(line.at), "kind": line.kind, "detail": line.detail} for line in story],
        "text": "\n".join(_lines(batch, job, blockers)),
        "blocked": [
            {
                "worker": blocker.worker,
                "resource": blocker.resource,
                "needed": amount_number(blocker.needed),
                "free": amount_number(blocker.free),
                "holders": list(blocker.holders),
            }
            for blocker in blockers
        ],
    }


def _lines(batch: Batch, job: Job, blockers: list[placement.Blocker]) -> list[str]:
    offers = [station.offer(job.spec.queue) for station in batch.board.offering(job.spec.queue)]
    takes_slot = bool(offers) and all(offer is not None and offer.slots for offer in offers)
    asked = "a slot" if takes_slot else request_text(job.spec.request)
    head = f"job {job.id} ({asked}, queue {job.spec.queue})"
    if job.state in FINAL:
        ways = f"`grass log {job.id}` shows what it wrote, `grass rerun {job.id}` runs it again"
        return [f"{head} has ended: {ending(job)}", ways]
    if job.state is not State.QUEUED:
        silent = unreachable(batch, job)
        state, reason = ("unreachable", silent) if silent else (str(job.state), lacking(batch, job) or job.reason)
        return [f"{head} is {state}" + (f": {reason}" if reason else "")]
    if (held_up := _held_up(batch.board, batch.mono)) is not None:
        return [f"{head} waits: {held_up}"]
    if batch.board.is_paused(job.spec.queue):
        paused = f"queue {job.spec.queue}" if job.spec.queue in batch.board.paused else "everything"
        return [f"{head} waits because {paused} is paused; `grass resume` lets it go on"]
    if not blockers:
        return [f"{head} is about to start"]
    return [f"{head} waits for {_wanted(blockers)}:", *(_blocker_line(blocker) for blocker in blockers)]


def _wanted(blockers: list[placement.Blocker]) -> str:
    resources = [blocker.resource for blocker in blockers if blocker.resource != placement.WORKER]
    return resources[0] if resources else "a worker"


def _held_up(board: Board, mono: float) -> str | None:
    """Why nothing at all is started now, beyond pauses."""
    if board.doubts:
        names = ", ".join(sorted(board.doubts))
        return (
            f"the store was restored from a backup, and {names} may have run jobs since; `grass resume --restored` "
            "goes on without waiting"
        )
    if missing := board.awaits(mono):
        names, left_s = ", ".join(sorted(missing)), board.awaited_until - mono
        return f"this broker has just begun; for {left_s:.0f} s at most it waits for {names} to say what they hold"
    return None


def _blocker_line(blocker: placement.Blocker) -> str:
    if blocker.resource == placement.WORKER:
        return f"  {blocker.why}"
    held = f"; held by job {', '.join(map(str, blocker.holders))}" if blocker.holders else ""
    numbers = f"{amount_text(blocker.needed)} needed, {amount_text(blocker.free)} free"
    why = "" if numbers.split(",")[0] in blocker.why or "needed" in blocker.why else f" ({blocker.why})"
    return f"  on {blocker.worker}: {blocker.resource} {numbers}{held}{why}"


def ending(job: Job) -> str:
    """How a finished job ended, in words."""
    how = str(job.outcome or job.state)
    if job.exit_code is not None:
        how = f"exit code {job.exit_code}"
    elif job.signal is not None:
        how = f"signal {job.signal}"
    return f"{job.state}, {how}" + (f" ({job.error})" if job.error else "")
