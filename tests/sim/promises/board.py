"""The promise that a broker's board and its store say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.sim.promises.held import Usage, place_of, slot_of, usage
from tests.sim.promises.promise import Broken, demand

from grassq.core.model import HOLDING, Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.explain import never_fits
from grassq.core.planner.request_classes import shape_of
from grassq.core.resources.amounts import ONE
from grassq.core.syntax.resource_names import SLOT, VRAM


def check_board(board: Board, alive: Mapping[int, Job]) -> None:
    """The board has the jobs of the store, each where it belongs, and counts what they hold."""
    timed = {i for i, job in alive.items() if job.state is State.WAITING and job.ready_at is not None}
    whole = {i: job for i, job in alive.items() if job.state in HOLDING or i in timed}
    waiting = {i for i, job in alive.items() if job.waits_for_jobs}
    known_to_wait = {i for i in alive if i in board.dependencies}
    demand(known_to_wait == waiting, f"the board lets {known_to_wait} wait for jobs, the store {waiting}")
    known = {i: job for i, job in alive.items() if i in board.jobs} | whole
    if board.jobs != known:
        raise Broken(f"board and store differ: {_difference(board.jobs, known)}")
    for state, lines in ((State.QUEUED, dict(board.shapes())), (State.WAITING, board.blocked)):
        placed = {(shape, order) for shape, line in lines.items() for order in line}
        stored = {
            (shape_of(job), job.order)
            for job in alive.values()
            if job.state is state and (state is State.QUEUED or job.waits_for_queue)
        }
        if placed != stored:
            raise Broken(f"{state}: the board has {placed}, the store {stored}")
    moved = {job.rank: job.id for job in alive.values() if job.rank is not None}
    demand(board.ranks.moved == moved, f"the board has {board.ranks.moved} moved, the store {moved}")
    _check_counts(board)


def _check_counts(board: Board) -> None:
    held = usage(board.jobs.values())
    counted: Usage = Counter()
    for worker, worker_state in board.workers.items():
        for name, amount in worker_state.machine.pools.items():
            counted[worker, name, ""] = amount
        for name, loads in worker_state.machine.loads.items():
            if name == SLOT:
                continue  # a machine has none: they are its offers'
            for device, load in loads.items():
                counted[worker, name, device] = load.used
                counted[worker, VRAM, device] = load.vram
        for queue, ledger in worker_state.offers.items():
            if (slots := ledger.slot_set) is not None:
                for index, holders in slots.holders.items():
                    counted[worker, slot_of(queue), place_of(index, slots.slots[index].ids)] = holders * ONE
    # Of a queue that was made anew nobody counts the slots that it had before and are still held.
    places = {
        (worker, slot_of(queue), place_of(index, slot.ids))
        for worker, worker_state in board.workers.items()
        for queue, ledger in worker_state.offers.items()
        for index, slot in enumerate(ledger.slot_set.slots if ledger.slot_set is not None else ())
    }
    held = Counter({key: n for key, n in held.items() if not key[1].startswith(SLOT) or key in places})
    if +held != +counted:
        raise Broken(f"jobs hold {+held}, the board counts {+counted}")


def check_queued(board: Board) -> None:
    """Queued means that it may be placed: its queue is there, and could hold it."""
    for (queue, request, constraints), _ in board.shapes():
        why = (
            "no queue" if next(board.offering(queue), None) is None else never_fits(board, queue, request, constraints)
        )
        demand(why is None, f"jobs of {queue} that ask {request} are queued, and yet: {why}")


def _difference(board: dict[int, Job], store: dict[int, Job]) -> list[tuple[Job | None, Job | None]]:
    ids = sorted(board.keys() | store.keys())
    return [(board.get(i), store.get(i)) for i in ids if board.get(i) != store.get(i)][:3]
