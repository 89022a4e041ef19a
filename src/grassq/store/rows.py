"""Jobs as rows and rows as jobs."""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.structs

from grassq.core.model import FINAL, HOLDING, Job, Outcome, Placement, Spec, State, WorkerInfo
from grassq.store.base import Attempt, Standing, Submission, Token

_SHOWS_PLACEMENT = FINAL | HOLDING
_encode = msgspec.msgpack.Encoder().encode
_spec = msgspec.msgpack.Decoder(Spec).decode
_placement = msgspec.msgpack.Decoder(Placement).decode
_info = msgspec.msgpack.Decoder(WorkerInfo).decode


def job_row(job: Job) -> tuple[object, ...]:
    """The columns of a job, in the order of JOB_COLUMNS."""
    head = (job.id, job.spec.queue, job.name, job.state, job.priority, job.reason, _encode(job.spec))
    return (
        *head,
        job.spec.env_digest,
        job.attempt,
        int(job.cancel_requested),
        job.stop_grace_s,
        job.pid,
        job.tried,
        job.lost,
        job.created,
        job.ready_at,
        job.started,
        job.finished,
        job.outcome,
        job.exit_code,
        job.signal,
        job.error,
        job.rerun_of,
    )


def job_update(before: Job, after: Job) -> tuple[object, ...]:
    """What UPDATE_JOB sets, and its guard."""
    row = job_row(after)
    return (*row[3:6], *row[8:14], *row[15:22], after.id, before.state, before.attempt)


def job_from(row: tuple[Any, ...]) -> Job:
    """A job, from JOB_COLUMNS and its newest attempt's placement."""
    state = State(row[3])
    return Job(
        id=row[0],
        name=row[2],
        state=state,
        priority=row[4],
        reason=row[5],
        spec=_spec(row[6]),
        attempt=row[8],
        cancel_requested=bool(row[9]),
        stop_grace_s=row[10],
        pid=row[11],
        tried=row[12],
        lost=row[13],
        created=row[14],
        ready_at=row[15],
        started=row[16],
        finished=row[17],
        outcome=None if row[18] is None else Outcome(row[18]),
        exit_code=row[19],
        signal=row[20],
        error=row[21],
        rerun_of=row[22],
        placement=_placement(row[23]) if row[23] is not None and state in _SHOWS_PLACEMENT else None,
    )


def attempt_row(attempt: Attempt) -> tuple[object, ...]:
    """The columns of an attempt."""
    where = attempt.placement
    return (
        attempt.job,
        attempt.number,
        where.worker,
        where.boot,
        _encode(where),
        attempt.pid,
        attempt.started,
        attempt.ended,
        attempt.outcome,
        attempt.exit_code,
        attempt.signal,
        attempt.error,
    )


def attempt_from(row: tuple[Any, ...]) -> Attempt:
    """An attempt, from the columns of SELECT_ATTEMPTS."""
    return Attempt(
        job=row[0],
        number=row[1],
        placement=_placement(row[2]),
        pid=row[3],
        started=row[4],
        ended=row[5],
        outcome=None if row[6] is None else Outcome(row[6]),
        exit_code=row[7],
        signal=row[8],
        error=row[9],
    )


def worker_row(info: WorkerInfo) -> tuple[object, ...]:
    """The columns of a worker."""
    return (info.name, _encode(info))


def worker_from(row: tuple[Any, ...]) -> WorkerInfo:
    """A worker, from its column."""
    return _info(row[0])


def standing_row(worker: str, standing: Standing) -> tuple[object, ...]:
    """The columns of what a broker keeps of a worker."""
    return (worker, int(standing.drained), standing.ticket, standing.next_ticket)


def standing_from(row: tuple[Any, ...]) -> tuple[str, Standing]:
    """A worker's name and its standing, from the columns of SELECT_STANDINGS."""
    return row[0], Standing(bool(row[1]), row[2], row[3])


def token_row(token: Token) -> tuple[object, ...]:
    """The columns of a token or a code."""
    return (
        token.id,
        token.digest,
        token.scope,
        token.name,
        token.created,
        int(token.is_code),
        None if token.queues is None else _encode(token.queues),
        int(token.bare),
        token.expires,
        token.ended,
        token.became,
    )


def token_from(row: tuple[Any, ...]) -> Token:
    """A token or a code, from TOKEN_COLUMNS."""
    return Token(
        id=row[0],
        digest=row[1],
        scope=row[2],
        name=row[3],
        created=row[4],
        is_code=bool(row[5]),
        queues=None if row[6] is None else msgspec.msgpack.decode(row[6], type=tuple[str, ...]),
        bare=bool(row[7]),
        expires=row[8],
        ended=row[9],
        became=row[10],
    )


def submission_row(submission: Submission) -> tuple[object, ...]:
    """The columns of a submission."""
    return (*msgspec.structs.astuple(submission)[:-1], _encode(submission.ids))


def submission_from(row: tuple[Any, ...]) -> Submission:
    """A submission, from the columns of SELECT_SUBMISSION."""
    key, digest, first_id, count, at, ids = row
    return Submission(key, digest, first_id, count, at, msgspec.msgpack.decode(ids, type=tuple[int, ...]))
