"""Placed ahead: brief jobs that follow one another do not wait for the broker in between.

Where the attempts of a shape are over in no time, the next jobs are placed behind those that run: each takes over
exactly the devices of its leader, at the moment that ends. It is on disk as placed before it can start, like every
attempt, and it holds nothing until then. Who finds itself behind one that is not brief after all is taken back, and so
is everybody when their queue is paused.
"""

from __future__ import annotations

from grassq.core.model import Job
from grassq.core.planner.board import Board, shape_of

#: Shapes whose pace is remembered; all are forgotten when there are more.
SHAPES_MAX = 1000


def note_duration(board: Board, job: Job, lasted_s: float) -> None:
    """An attempt has ended after so long."""
    shape = shape_of(job)
    if lasted_s > board.prefetch_policy.short_s:
        board.short.pop(shape, None)
        return
    if shape not in board.short and len(board.short) >= SHAPES_MAX:
        board.short.clear()
    board.short[shape] = board.short.get(shape, 0) + 1


def tails(board: Board) -> list[Job]:
    """The attempts behind which another may be placed now."""
    if not any(runs >= board.prefetch_policy.runs for runs in board.short.values()):
        return []
    worker_states = [
        worker_state
        for worker_state in board.worker_states.values()
        if worker_state.takes and worker_state.info.follows
    ]
    return [
        job
        for worker_state in worker_states
        for job in board.held_by(worker_state.info.name)
        if _may_be_followed(board, job)
    ]


def _may_be_followed(board: Board, job: Job) -> bool:
    return (
        job.attempt_id not in board.prefetched
        and board.predecessor(job) is None
        and not job.cancel_requested
        and board.short.get(shape_of(job), 0) >= board.prefetch_policy.runs
        and not board.is_paused(job.spec.queue)
        and job.attempt_id not in board.slow
    )


def is_wanted_back(board: Board, job: Job, waited_s: float) -> bool:
    """Whether a job that has waited so long behind another must be taken back."""
    assert job.placement is not None
    worker_state = board.worker_states.get(job.placement.worker)
    if waited_s >= board.prefetch_policy.wait_s or worker_state is None or not worker_state.takes:
        return True
    return job.cancel_requested or board.is_paused(job.spec.queue)


def note_slow(board: Board, predecessor: Job) -> None:
    """Another job has waited behind this one for too long: it is not brief, and maybe its shape is not."""
    board.slow.add(predecessor.attempt_id)
    board.short.pop(shape_of(predecessor), None)
