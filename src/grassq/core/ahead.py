"""Placed ahead: brief jobs that follow one another do not wait for the broker in between.

Where the attempts of a shape are over in no time, the next jobs are placed behind those that run: each takes over
exactly the devices of its leader, at the moment that ends. It is on disk as placed before it can start, like every
attempt, and it holds nothing until then. Who finds itself behind one that is not brief after all is taken back, and so
is everybody when their queue is paused.
"""

from __future__ import annotations

from grassq.core.board import Board, shape_of
from grassq.core.model import Job

#: Shapes whose pace is remembered; all are forgotten when there are more.
SHAPES_MAX = 1000


def note_pace(board: Board, job: Job, lasted_s: float) -> None:
    """An attempt has ended after so long."""
    shape = shape_of(job)
    if lasted_s > board.pace.brief_s:
        board.brief.pop(shape, None)
        return
    if shape not in board.brief and len(board.brief) >= SHAPES_MAX:
        board.brief.clear()
    board.brief[shape] = board.brief.get(shape, 0) + 1


def tails(board: Board) -> list[Job]:
    """The attempts behind which another may be placed now."""
    if not any(runs >= board.pace.runs for runs in board.brief.values()):
        return []
    stations = [station for station in board.stations.values() if station.takes and station.info.follows]
    return [job for station in stations for job in board.held_by(station.info.name) if _may_be_followed(board, job)]


def _may_be_followed(board: Board, job: Job) -> bool:
    return (
        job.attempt_id not in board.followers
        and board.leader(job) is None
        and not job.cancel_requested
        and board.brief.get(shape_of(job), 0) >= board.pace.runs
        and not board.is_paused(job.spec.queue)
        and job.attempt_id not in board.slow
    )


def is_wanted_back(board: Board, job: Job, waited_s: float) -> bool:
    """Whether a job that has waited so long behind another must be taken back."""
    assert job.placement is not None
    station = board.stations.get(job.placement.worker)
    if waited_s >= board.pace.wait_s or station is None or not station.takes:
        return True
    return job.cancel_requested or board.is_paused(job.spec.queue)


def note_slow(board: Board, leader: Job) -> None:
    """Another job has waited behind this one for too long: it is not brief, and maybe its shape is not."""
    board.slow.add(leader.attempt_id)
    board.brief.pop(shape_of(leader), None)
