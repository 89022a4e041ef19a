"""Jobs as the documents that users see, the overview, and why a job waits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isinf
from typing import cast

from grassq import __version__
from grassq.broker.actions.suspend import suspension_text
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument, JobFilesDocument
from grassq.broker.documents.overview import FleetDocument, OverviewDocument, PausedDocument
from grassq.broker.documents.texts import clock_text, maybe_text, timestamp, word_text
from grassq.broker.documents.why import TurnDocument, WhyJobDocument
from grassq.broker.selection import Reading, read
from grassq.broker.summary.directory import directory_of
from grassq.broker.summary.fleet import queue_documents, worker_document, workers_of
from grassq.broker.waiting import documents as waiting
from grassq.core import outcome
from grassq.core.model import FINAL, Job, Spec, State
from grassq.core.notices.targets import masked, stored_target
from grassq.core.planner.board import EVERYTHING, Board
from grassq.core.planner.explain import LIMIT, WORKER, Blocker, Outlook, Turn
from grassq.core.planner.request_classes import shape_of
from grassq.core.printable import exact_span
from grassq.core.resources.amounts import allocation_json, amount_number, amount_text, request_text
from grassq.core.states import SENDING
from grassq.core.syntax.file_words import output_path
from grassq.core.syntax.resource_names import SLOT, VRAM, VRAM_OF
from grassq.core.syntax.selectors import ByState as InState

SCHEMA = 1
NEXT_SHOWN = 100
RECENT_SHOWN = 100
RECENT_S = 86400.0
STORY_SHOWN = 20
#: How many jobs one page has; the engine is held for one page.
SHOW_PAGE = 200
WHY_PAGE = 40
#: A worker that was silent for less is probably about to reconnect: its jobs are not called unreachable yet.
UNREACHABLE_S = 5.0

Document = dict[str, object]


def glance(batch: Batch) -> OverviewDocument:
    """Return the overview with the jobs that run, the next jobs and the jobs that ended lately."""
    blocked: list[Job] = []
    for state in (State.HELD, State.WAITING):
        stored = batch.store.jobs(InState((state,)), NEXT_SHOWN + 1)
        blocked += [job for job in map(batch.current, stored) if job.state in (State.HELD, State.WAITING)]
    following = batch.fetch(batch.board.next_ids(NEXT_SHOWN)).values()
    ended = batch.store.recent(batch.now - RECENT_S, RECENT_SHOWN)
    shown = {job.id: job for job in (*ended, *batch.board.holding.values(), *following, *blocked[:NEXT_SHOWN])}
    more = batch.board.queued() > NEXT_SHOWN or len(blocked) > NEXT_SHOWN or len(ended) == RECENT_SHOWN
    return {**overview(batch), "jobs": documents(batch, [shown[id_] for id_ in sorted(shown)]), "more": more}


def overview(batch: Batch) -> FleetDocument:
    """Return all that `show` prints except jobs."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "queues": queue_documents(batch),
        "workers": [worker_document(batch, worker) for worker in workers_of(batch)],
        "totals": batch.store.totals(),
        "paused": sorted(batch.board.paused),
        "restored": sorted(batch.board.unreconciled),
        "more": False,
    }


def show_page(reading: Reading, batch: Batch) -> tuple[list[JobDocument], Reading]:
    """Return the next selected jobs as data, each as it is now, and the reading after them."""
    some, reading = read(batch, reading, SHOW_PAGE)
    return documents(batch, [job for job, _ in some]), reading


def why_page(reading: Reading, batch: Batch) -> tuple[list[WhyJobDocument], Reading]:
    """Return why each of the next selected jobs is where it is, and the reading after them."""
    some, reading = read(batch, reading, WHY_PAGE)
    outlook = Outlook(batch.board, batch.mono)
    return [_why(batch, job, outlook) for job, _ in some], reading


def documents(batch: Batch, jobs: Sequence[Job]) -> list[JobDocument]:
    """Return jobs as documents, with what is known of their workers now."""
    found: list[JobDocument] = [
        {
            **job_document(job, unreachable(batch, job), lacking(batch, job)),
            "cannot_start": cannot_start(batch, job),
            "cannot_end": cannot_end(batch, job),
            "directory": directory_of(batch, job),
        }
        for job in jobs
    ]
    if len(jobs) == 1 and jobs[0].attempt > 1:
        found[0]["attempts"] = waiting.attempt_documents(batch, jobs[0])
    return found


def cannot_start(batch: Batch, job: Job) -> str | None:
    """Return why a job cannot start until a person does something; None if it can, and when it has started."""
    is_delayed = job.state is State.PLACED and job.reason is not None and not job.reason.startswith(SENDING)
    if job.state is State.HELD or job.waits_for_queue or is_delayed:
        return lacking(batch, job) or job.reason
    why = lacking(batch, job) if job.state is State.QUEUED else None
    return why or (_stores_nothing(batch) if job.state in (State.QUEUED, State.WAITING, State.PLACED) else None)


def cannot_end(batch: Batch, job: Job) -> str | None:
    """Return why the end of a running job would not be noticed now; None if it would be."""
    return _stores_nothing(batch) if job.state is State.RUNNING else None


def _stores_nothing(batch: Batch) -> str | None:
    return None if batch.read_only is None else f"nothing can be stored now: {batch.read_only}"


def paused_text(board: Board, queue: str) -> str:
    """Return that a queue, or everything, is paused, and how to go on."""
    if queue in board.paused:
        return f"queue {queue} is paused; `grass resume {queue}` lets it go on"
    return "everything is paused; `grass resume` lets it go on"


def paused_document(board: Board) -> PausedDocument:
    """Return the queues that are paused, and whether everything is."""
    is_all = EVERYTHING in board.paused
    queues = (board.paused.keys() - {EVERYTHING}) | (board.queue_names() if is_all else set())
    return {"all": is_all, "queues": sorted(queues)}


def lacking(batch: Batch, job: Job) -> str | None:
    """Return what a job waits for now; the job's own `reason` is from when it began to wait."""
    predecessor = batch.board.predecessor(job) if job.state is State.PLACED else None
    if predecessor is not None:
        return f"starts when job {predecessor.id} ends, on its devices"
    if job.state is State.QUEUED and batch.board.is_paused(job.spec.queue):
        return paused_text(batch.board, job.spec.queue)
    if job.is_suspended:
        return suspension_text(batch, job)
    if job.waits_for_queue:
        return batch.board.reasons.get(shape_of(job))
    return waiting.lacking(batch, job) if job.state is State.WAITING else None


def unreachable(batch: Batch, job: Job) -> str | None:
    """Return why the state of a job is not known: its worker is silent, and its command runs on. Else None."""
    worker = batch.board.workers.get(job.placement.worker) if job.placement and job.state not in FINAL else None
    if worker is None or (silent_s := worker.silent_s(batch.mono)) < UNREACHABLE_S:
        return None
    ends = "; the job is killed when the worker reconnects" if job.cancel_requested else ""
    return f"worker {worker.info.name} has not been heard from for {silent_s:.0f} s; its jobs keep running{ends}"


def job_document(job: Job, silent: str | None = None, lacking: str | None = None) -> JobDocument:
    """Return a job as a document; `silent` says why its worker cannot be reached, `lacking` what the job waits for."""
    where = job.placement
    return {
        "id": job.id,
        "name": job.name,
        "project": job.project,
        "tags": dict(job.spec.tags),
        "queue": job.spec.queue,
        "state": job.state,
        "reason": silent or lacking or job.reason,
        "unreachable": silent is not None,
        "command": [word_text(word) for word in job.spec.command],
        "shell": job.spec.shell is not None,
        "request": {name: amount_number(amount) for name, amount in job.spec.request},
        "allocation": allocation_json(where.allocation) if where else None,
        "worker": where.worker if where else None,
        "attempt": job.attempt,
        "pid": job.pid,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "outcome": job.outcome,
        "error": job.error,
        "result": None if job.result is None else json.loads(job.result),
        "parameters": dict(job.spec.parameters) or None,
        "sweep": job.spec.sweep,
        "array_index": job.spec.array_index,
        "rerun_of": job.rerun_of,
        "after": waiting.after_document(job.spec),
        "not_before": timestamp(job.ready_at),
        "tries": job.spec.tries,
        "priority": job.priority,
        "cwd": word_text(job.spec.cwd),
        "split": job.spec.split,
        "output": _output_text(job),
        "wrap": maybe_text(job.spec.wrap),
        "time_limit_s": job.spec.time_limit_s,
        "effective_time_limit_s": where.time_limit_s if where else None,
        "warn_s": None if job.spec.warn is None else job.spec.warn.before_s,
        "warn_signal": None if job.spec.warn is None else job.spec.warn.signal,
        "idle_limit_s": job.spec.idle_limit_s,
        "files": _files_document(job.spec) if job.spec.constraints.files else None,
        "notify": [masked(stored_target(each)) for each in job.spec.notify] if job.spec.notify else None,
        "cancel_requested": job.cancel_requested,
        "suspended": None if job.suspension is None else job.suspension.word,
        "suspended_since": timestamp(job.suspension.since) if job.suspension and job.suspension.word else None,
        "suspended_s": round(job.suspended_s, 3),
        "created": timestamp(job.created),
        "started": timestamp(job.started),
        "finished": timestamp(job.finished),
    }


def _files_document(spec: Spec) -> JobFilesDocument:
    """Return the options of a job that are about files and the environment, without those that were not given."""
    found = {
        "send": [
            {"folder": word_text(tree.folder), "dest": word_text(tree.dest), "manifest": tree.manifest}
            for tree in spec.send
        ],
        "fetch": [word_text(pattern) for pattern in spec.fetch],
        "fetch_to": word_text(spec.fetch_to or b""),
        "env_from": "" if spec.env_from == "machine" else spec.env_from,
        "python": word_text(spec.python or b""),
        "setup": word_text(spec.setup or b""),
        "setup_files": [word_text(name) for name in spec.setup_files],
    }
    return cast(JobFilesDocument, {name: value for name, value in found.items() if value})


def _output_text(job: Job) -> str | None:
    if job.spec.output is None:
        return None
    return word_text(output_path(job.spec.output, job.id, max(1, job.attempt), job.name))


def _why(batch: Batch, job: Job, outlook: Outlook) -> WhyJobDocument:
    blockers = outlook.explain(job) if job.state is State.QUEUED else []
    is_stopped = batch.board.is_paused(job.spec.queue) or _held_up(batch.board, batch.mono) is not None
    story = batch.store.story(job.id)[-STORY_SHOWN:]
    return {
        "id": job.id,
        "state": job.state,
        "reason": unreachable(batch, job) or cannot_end(batch, job) or lacking(batch, job) or job.reason,
        "story": [{"at": timestamp(line.at), "kind": line.kind, "detail": line.detail} for line in story],
        "text": "\n".join(_lines(batch, job, blockers)),
        "blocked": [
            {
                "worker": blocker.worker,
                "resource": blocker.resource,
                "needed": amount_number(blocker.needed),
                "free": amount_number(blocker.free),
                "holders": list(blocker.holders),
                "used_by_others": blocker.others or None,
                "drained": list(blocker.drained),
            }
            for blocker in blockers
        ],
        "turn": _turn_document(batch, outlook.turn(job)) if blockers and not is_stopped else None,
    }


def _turn_document(batch: Batch, turn: Turn) -> TurnDocument:
    """Return where a queued job is in line; times of the broker's monotonic clock become dates."""

    def date(mono: float | None) -> str | None:
        return None if mono is None or isinf(mono) else timestamp(batch.now + mono - batch.mono)

    return {
        "higher": turn.higher,
        "earlier": turn.earlier,
        "passed": turn.passed,
        "passes": batch.board.patience.passes,
        "kept_on": turn.kept.worker if turn.kept is not None else None,
        "kept_since": date(turn.kept.since if turn.kept is not None else None),
        "kept_from_equals": turn.is_ripe,
        "kept_from_equals_at": date(turn.ripe_at),
        "starts_by": date(turn.starts_by),
    }


def _lines(batch: Batch, job: Job, blockers: list[Blocker]) -> list[str]:
    offers = [worker.offer(job.spec.queue) for worker in batch.board.offering(job.spec.queue)]
    takes_slot = bool(offers) and all(offer is not None and offer.slots for offer in offers)
    asked = "a slot" if takes_slot else request_text(job.spec.request)
    head = f"job {job.id} ({asked}, queue {job.spec.queue}{_limits_text(job)})"
    if job.state in FINAL:
        log = f"`grass log {job.id}` shows what it wrote, " if job.started is not None else ""
        return [f"{head} {ending(job)}", f"{log}`grass rerun {job.id}` runs it again"]
    if job.state is not State.QUEUED:
        silent = unreachable(batch, job)
        lacks = lacking(batch, job) or job.reason or _stores_nothing(batch)
        state, reason = ("unreachable", silent) if silent else (str(job.state), lacks)
        return [f"{head} is {state}" + (f": {reason}" if reason else "")]
    if (held_up := _stores_nothing(batch) or _held_up(batch.board, batch.mono)) is not None:
        return [f"{head} waits: {held_up}"]
    if batch.board.is_paused(job.spec.queue):
        return [f"{head} waits because {paused_text(batch.board, job.spec.queue)}"]
    if not blockers:
        return [f"{head} is about to start"]
    wanted = next((blocker.resource for blocker in blockers if blocker.resource != WORKER), "a worker")
    wanted = "the limit of a group" if wanted == LIMIT else wanted
    return [f"{head} waits for {wanted}:", *(_blocker_line(batch, blocker) for blocker in blockers)]


def _limits_text(job: Job) -> str:
    limit_s = job.placement.time_limit_s if job.placement is not None else job.spec.time_limit_s
    limit = "" if limit_s is None else f", time limit {exact_span(limit_s)}"
    return limit + ("" if job.spec.idle_limit_s is None else f", idle limit {exact_span(job.spec.idle_limit_s)}")


def _held_up(board: Board, mono: float) -> str | None:
    """Return why nothing is started now, other than pauses."""
    if board.unreconciled:
        names = ", ".join(sorted(board.unreconciled))
        return (
            f"the store was restored from a backup, and {names} may have run jobs since; `grass resume --restored` "
            "goes on without waiting"
        )
    if missing := board.awaits(mono):
        names, left_s = ", ".join(sorted(missing)), board.awaited_until - mono
        return f"this broker has just started; it waits {left_s:.0f} s at most for {names} to reconnect"
    return None


def _blocker_line(batch: Batch, blocker: Blocker) -> str:
    if blocker.resource in (WORKER, LIMIT):
        return f"  {blocker.why}"
    held = f"; held by job {', '.join(map(str, blocker.holders))}" if blocker.holders else ""
    numbers = f"{amount_text(blocker.needed)} needed, {amount_text(blocker.free)} free"
    why = "" if numbers.split(",")[0] in blocker.why or "needed" in blocker.why else f" ({blocker.why})"
    if blocker.starts_by is not None:
        at = batch.now + blocker.starts_by - batch.mono
        # Rounded up to the minute, or it would be too early.
        why = f" ({blocker.why} and starts by {clock_text(at + 60, batch.now)} at the latest)"
    others = f"; programs outside of Grass use {blocker.others}" if blocker.others else ""
    if blocker.drained:
        group = VRAM_OF if blocker.resource in (SLOT, VRAM) else blocker.resource
        verb = "is" if len(blocker.drained) == 1 else "are"
        others += f"; {group} {', '.join(blocker.drained)} {verb} drained"
    return f"  on {blocker.worker}: {blocker.resource} {numbers}{held}{others}{why}"


def ending(job: Job) -> str:
    """Return how a finished job ended, in words."""
    how = outcome.in_words(job.outcome, job.exit_code, job.signal)
    if job.state is not State.CANCELLED:
        return f"has ended: {job.state}, {how}" + (f" ({job.error})" if job.error else "")
    if job.started is None:
        return "was cancelled before it started"
    return "was cancelled" + (f", {how}" if how != str(job.outcome) else "")
