"""Keep the limits of sweeps: how many jobs run at once, and after how many failures nothing more starts."""

from __future__ import annotations

from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core.model import FINAL, HOLDING, Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.states import Cancel
from grassq.core.sweeps.sweep import LiveSweep, stop_reason
from grassq.core.syntax.selectors import BySweep
from grassq.store.relational import Store

#: How many jobs of a stopped sweep are looked at in one batch; the next batches do the rest.
CANCELLED_MAX = 200


def load(board: Board, store: Store) -> None:
    """Put the sweeps with a limit and an unfinished job on a board that was read from the store."""
    for sweep in store.open_sweeps():
        counts = store.in_sweep(sweep.id)
        unfinished = sum(count for state, count in counts.items() if State(state) not in FINAL)
        failed = store.failed_in_sweep(sweep.id, sweep.counted_from)
        live = board.sweeps[sweep.id] = LiveSweep(sweep, unfinished, failed)
        if sweep.stopped is not None:
            live.stopping = 0
        limit(board, live)


def limit(board: Board, live: LiveSweep) -> None:
    """Set the limit of a sweep's group; while the sweep is being stopped, none of its jobs starts."""
    most = 0 if live.stopping is not None else live.sweep.at_once
    board.set_group_limit(live.sweep.group, None if most is None else GroupLimit(jobs=most))


def settle(batch: Batch, counted: set[int]) -> bool:
    """Count the jobs of sweeps that began or ended in this batch; stop and close sweeps. Tell whether there is more.

    `counted` has the jobs of this batch whose ends, or whose beginnings, were counted by an earlier call.
    """
    board = batch.board
    if not board.sweeps:
        return False
    for job in [*batch.changes.inserted.values()]:
        if (live := board.sweeps.get(job.spec.sweep or 0)) is not None:
            live.unfinished += -job.id not in counted
            counted.add(-job.id)  # its beginning
            _count_end(live, job, counted)
    for before, after in [*batch.changes.updated.values()]:
        live = board.sweeps.get(after.spec.sweep or 0)
        if live is None or before.state in FINAL or after.id in counted:
            continue
        if _is_stopped(live, after):
            # It comes back: for another try, or because its worker refused it.
            after = batch.move(after, Cancel(why=live.sweep.stopped or ""))
        _count_end(live, after, counted)
    more = False
    for live in [*board.sweeps.values()]:
        most = live.sweep.max_fails
        if most is not None and live.failed >= most and live.stopping is None:
            _begin_to_stop(batch, live)
        if live.stopping is not None:
            more |= _stop_more(batch, live, counted)
        if live.unfinished <= 0:
            _close(batch, live)
    return more


def _count_end(live: LiveSweep, job: Job, counted: set[int]) -> None:
    if job.state in FINAL and job.id not in counted:
        counted.add(job.id)
        live.unfinished -= 1
        live.failed += job.state is State.FAILED and job.id >= live.sweep.counted_from


def _is_stopped(live: LiveSweep, job: Job) -> bool:
    """Tell whether a job waits and must not start, because its sweep was stopped.

    One that is placed is taken back from its worker (`core.reconcile`), and waits then; if it has started, it goes on.
    """
    return job.state not in FINAL | HOLDING and live.has_stopped(job.id)


def _begin_to_stop(batch: Batch, live: LiveSweep) -> None:
    # Jobs that came in this batch are not in the store yet: they count as later ones.
    later = min(batch.changes.inserted, default=batch.next_id)
    stopped = stop_reason(live.sweep.name, live.failed)
    live.sweep = batch.changes.sweeps[live.sweep.id] = replace(live.sweep, stopped=stopped, counted_from=later)
    live.failed, live.stopping = 0, 0
    limit(batch.board, live)


def _stop_more(batch: Batch, live: LiveSweep, counted: set[int]) -> bool:
    """Cancel some more jobs of a stopped sweep that have not started; tell whether there may be others."""
    assert live.stopping is not None
    last = live.sweep.counted_from - 1
    found, live.stopping = batch.store.page(BySweep(live.sweep.id), live.stopping, last, CANCELLED_MAX)
    for stored in found:
        job = batch.current(stored)
        if _is_stopped(live, job):
            _count_end(live, batch.move(job, Cancel(why=live.sweep.stopped or "")), counted)
    if live.stopping < last:
        return True
    live.stopping = None
    limit(batch.board, live)
    return False


def _close(batch: Batch, live: LiveSweep) -> None:
    del batch.board.sweeps[live.sweep.id]
    batch.board.set_group_limit(live.sweep.group, None)
    batch.changes.sweeps[live.sweep.id] = replace(live.sweep, is_open=False)
