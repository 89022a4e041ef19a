"""Rows of what a broker keeps besides jobs: workers, tokens, submissions."""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.structs

from grassq.store.base import NewerAttempts, Row, Submission, Token, WorkerRecord
from grassq.store.rows import encode, plain

_offered = msgspec.msgpack.Decoder(dict[str, int]).decode


def worker_record_row(worker: str, worker_record: WorkerRecord) -> tuple[object, ...]:
    """Return the columns of a worker record."""
    offered = encode(worker_record.offered) if worker_record.offered else None
    return (worker, int(worker_record.drained), worker_record.ticket, worker_record.next_ticket, offered)


def worker_record_from(row: tuple[Any, ...]) -> tuple[str, WorkerRecord]:
    """Return a worker's name and its record, from its columns."""
    return row[0], WorkerRecord(bool(row[1]), row[2], row[3], {} if row[4] is None else _offered(row[4]))


def token_row(token: Token) -> tuple[object, ...]:
    """Return the columns of a token or a code: its fields, in their order."""
    columns = msgspec.structs.asdict(token)
    columns["queues"] = None if token.queues is None else encode(token.queues)
    return tuple(map(plain, columns.values()))


def token_from(row: tuple[Any, ...]) -> Token:
    """Return a token or a code, from its columns."""
    fields = dict(zip(Token.__struct_fields__, row, strict=True))
    if (queues := fields["queues"]) is not None:
        fields["queues"] = msgspec.msgpack.decode(queues)
    return msgspec.convert(fields, Token, strict=False)


def submission_row(submission: Submission) -> tuple[object, ...]:
    """Return the columns of a submission."""
    return (*msgspec.structs.astuple(submission)[:-1], encode(submission.ids))


def submission_from(row: tuple[Any, ...]) -> Submission:
    """Return a submission, from the columns of SELECT_SUBMISSION."""
    key, digest, first_id, count, at, ids = row
    return Submission(key, digest, first_id, count, at, msgspec.msgpack.decode(ids, type=tuple[int, ...]))


def newer_text(newer: NewerAttempts) -> str:
    """Return attempts that the store has no record of, as one word of the store."""
    return msgspec.json.encode(newer).decode()


def newer_from(row: Row) -> NewerAttempts:
    """Return what `newer_text` made a word of."""
    return msgspec.json.decode(row[0], type=NewerAttempts)
