"""Turn jobs into rows and rows into jobs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import compress, islice
from operator import attrgetter, gt, ne
from sys import intern
from typing import Any, Literal

import msgspec
import msgspec.structs
from msgspec import Struct

from grassq.core.job_options import Pairs, SpecOptions
from grassq.core.model import (
    ANYWHERE,
    FINAL,
    HOLDING,
    Constraints,
    Job,
    Outcome,
    Placement,
    QueueTemplate,
    Spec,
    State,
    Suspension,
    WorkerInfo,
)
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.request_classes import Shape
from grassq.core.query.query import JobFacts
from grassq.core.resources.amounts import Allocation, Request
from grassq.core.waiting.conditions import Dependency
from grassq.store import sql
from grassq.store.base import (
    Attempt,
    PastRun,
    Row,
    Story,
    WaitingGroup,
)
from grassq.store.wait_words import wait_words, waits_from

#: Different shapes whose requests are remembered while jobs are looked through.
SHAPES_CACHED = 1024
#: Different placements whose allocations are remembered while runs are read.
ALLOCATIONS_CACHED = 1024
#: A table, and some of its rows.
Part = tuple[str, list[Row]]
#: A statement and its values.
Write = tuple[str, tuple[object, ...]]


class _Asked(Struct, array_like=True, frozen=True):
    """What the column `shape` holds: the request, and the constraints if there are any."""

    request: Request
    constraints: Constraints = ANYWHERE


class _Rest(Struct, array_like=True, frozen=True):
    """What the column `spec` holds: every part of a spec that has no column of its own."""

    command: tuple[bytes, ...]
    cwd: bytes
    umask: int
    shell: bytes | None
    env: Pairs
    own_cwd: bool
    split: bool
    keep_children: bool
    grace_s: float
    on_lost: Literal["fail", "requeue"]
    tries: int
    by: str | None
    #: Later options by name, without those that have their default; an empty map is left out too.
    later: dict[str, Any] = {}


_STATES = {state.value: state for state in State}
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_SHOWS_PLACEMENT = {state.value for state in FINAL | HOLDING}
encode = msgspec.msgpack.Encoder().encode
_asked = msgspec.msgpack.Decoder(_Asked).decode
_rest = msgspec.msgpack.Decoder(_Rest).decode
_suspension = msgspec.json.Decoder(Suspension).decode
_placement = msgspec.msgpack.Decoder(Placement).decode
worker_of = msgspec.msgpack.Decoder(WorkerInfo).decode
template_of = msgspec.msgpack.Decoder(QueueTemplate).decode
limit_of = msgspec.msgpack.Decoder(GroupLimit).decode

_rest_of: Callable[[Spec], tuple[object, ...]] = attrgetter(*_Rest.__struct_fields__[:-1])
#: The parts of a spec that are no options and came after `_Rest`.
_PARTS = ("array_index", "array_of", "sweep", "point", "dependencies", "put_back")
#: The options without a position of their own in `_Rest`, and these parts, with their defaults.
_LATER = {
    field.name: field.default
    for field in msgspec.structs.fields(Spec)
    if field.name in (*SpecOptions.__struct_fields__, *_PARTS) and field.name not in _Rest.__struct_fields__
}


class _Later(SpecOptions, frozen=True, kw_only=True):
    """What the map `later` of `_Rest` may hold."""

    array_index: int | None = None
    array_of: tuple[int, int, int] | None = None
    sweep: int | None = None
    point: str | None = None
    dependencies: tuple[Dependency, ...] = ()
    put_back: bool = False


# What most new jobs have in common; only what differs is written.
_USUAL: dict[str, object] = {
    field.name: field.default
    for field in msgspec.structs.fields(Job)
    if not field.required and field.name not in ("priority", "placement")
}
_USUAL["ready_at"] = None
# Parts of the spec; as columns too, because they have indexes.
_USUAL["project"] = None
_USUAL["unique_key"] = _USUAL["sweep"] = None
_usual = tuple(_USUAL.values())
_others_of: Callable[[Job], tuple[object, ...]] = attrgetter(*_USUAL)

# What can change in a job, and in an attempt.
_CHANGING = ("state", "priority", *(name for name in _USUAL if name != "rerun_of"))
_changing_of: Callable[[Job], tuple[object, ...]] = attrgetter(*_CHANGING)
_TOLD = ("pid", "started", "ended", "outcome", "exit_code", "signal", "error")
_told_of: Callable[[Attempt], tuple[object, ...]] = attrgetter(*_TOLD)
_untold = (None,) * len(_TOLD)

# SQLite's driver binds numbers, texts and bytearrays at once; for any other type, also bytes, enumerations and None,
# it first spends half a microsecond on finding an adapter.
_plain_text = str.__str__


def _suspension_text(suspension: Suspension) -> str:
    return msgspec.json.encode(suspension).decode("ascii")


_PLAIN: dict[type, Callable[[Any], object]] = {
    State: _plain_text,
    Outcome: _plain_text,
    bool: int,
    tuple: wait_words,
    Suspension: _suspension_text,
}


def plain(value: object) -> object:
    """Return a value as the drivers take it at once."""
    convert = _PLAIN.get(type(value))
    return value if convert is None else convert(value)


def job_inserts(jobs: Iterable[Job]) -> Iterator[Write]:
    """Yield the statements that store new jobs."""
    digests: dict[bytes, bytearray] = {}
    usual = sql.insert_job()
    for job in jobs:
        spec = job.spec
        digest = digests.get(spec.env_digest)
        if digest is None:
            digest = digests[spec.env_digest] = bytearray(spec.env_digest)
        row = (
            job.id,
            _plain_text(job.state),
            job.priority,
            spec.queue,
            bytearray(_asked_column(spec.request, spec.constraints)),
            job.created,
            digest,
            bytearray(encode(_stored(spec))),
        )
        others = _others_of(job)
        if others == _usual:
            yield usual, row
        else:
            yield _unusual(row, others)


def _unusual(row: tuple[object, ...], others: tuple[object, ...]) -> Write:
    own = {name: plain(value) for name, value in zip(_USUAL, others, strict=True) if value != _USUAL[name]}
    return sql.insert_job(tuple(own)), (*row, *own.values())


def tag_rows(jobs: Iterable[Job]) -> list[tuple[int, str, str]]:
    """Return the rows of the tags of jobs."""
    return [(job.id, key, value) for job in jobs for key, value in job.spec.tags]


def job_update(before: Job, after: Job) -> Write:
    """Return the statement that changes a stored job, with its guard."""
    news = _changing_of(after)
    changed = [*map(ne, _changing_of(before), news)]
    given, cleared, values = [], [], []
    for name, new in zip(compress(_CHANGING, changed), compress(news, changed), strict=True):
        if new is None:
            cleared.append(name)
        else:
            given.append(name)
            values.append(plain(new))
    if before.spec is not after.spec and before.spec != after.spec:
        given += ["queue", "shape", "env_digest", "spec"]
        values += spec_columns(after.spec)
    statement = sql.update_job(tuple(given), tuple(cleared))
    return statement, (*values, after.id, _plain_text(before.state), before.attempt)


def job_from(row: tuple[Any, ...]) -> Job:
    """Return a job, from JOB_COLUMNS and its newest attempt's placement."""
    state = row[1]
    return Job(
        id=row[0],
        state=_STATES[state],
        priority=row[2],
        name=row[4],
        reason=row[5],
        attempt=row[7],
        cancel_requested=bool(row[8]),
        stop_grace_s=row[9],
        pid=row[10],
        tried=row[11],
        lost=row[12],
        created=row[13],
        waits=waits_from(row[24], row[14]) if row[24] else (),
        started=row[15],
        finished=row[16],
        outcome=None if row[17] is None else _OUTCOMES[row[17]],
        exit_code=row[18],
        signal=row[19],
        error=row[20],
        rerun_of=row[21],
        spec=_spec_from(row[3], row[6], row[22], row[23]),
        result=row[25],
        token=row[26],
        rank=row[27],
        suspension=None if row[31] is None else _suspension(row[31]),
        suspended_s=row[32] or 0.0,
        placement=_placement(row[-1]) if row[-1] is not None and state in _SHOWS_PLACEMENT else None,
    )


def facts_from(row: Row) -> JobFacts:
    """Return what a query can ask of a job, from the columns of `sql.facts`."""
    state, worker, shape, spec = row[1], row[12], row[13], row[14]
    request = () if shape is None else _request_in(bytes(shape))
    rest = None if spec is None else _rest(spec)
    command = "" if rest is None else b" ".join(rest.command).decode("utf-8", "backslashreplace")
    tags = () if rest is None else tuple([(key, value) for key, value in rest.later.get("tags", ())])
    where = worker if state in _SHOWS_PLACEMENT else None
    # fmt: off
    return JobFacts(row[0], state, row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10],
                    row[11], where, request, command, tags, None if rest is None else rest.later.get("sweep"))
    # fmt: on


@lru_cache(SHAPES_CACHED)
def _request_in(shape: bytes) -> Request:
    return _asked(shape).request


def spec_columns(spec: Spec) -> list[str | bytearray]:
    """Return the columns queue, shape, env_digest and spec of a job; of equal specs they are equal."""
    asked = _asked_column(spec.request, spec.constraints)
    return [spec.queue, bytearray(asked), bytearray(spec.env_digest), bytearray(encode(_stored(spec)))]


#: The newest STORY_LINES of a story stay. Every TRIM_COMMITS-th commit removes older ones of the jobs that have lines
#: in the commit, of at most TRIMMED_JOBS: a worker or a script could otherwise fill the disk with the lines of one job.
STORY_LINES, TRIM_COMMITS, TRIMMED_JOBS = 1000, 64, 100


def story_trims(number: int, story: Iterable[Story]) -> list[tuple[int, int, int]]:
    """Return what TRIM_STORY is run with after the commit `number`; mostly nothing."""
    if number % TRIM_COMMITS != TRIM_COMMITS - 1:
        return []
    told = Counter(line.job for line in story).most_common(TRIMMED_JOBS)
    return [(job, job, STORY_LINES) for job, _ in told]


def stored_bytes(spec: Spec) -> int:
    """Return how many bytes the columns `spec` and `shape` of a job take: all that can be large."""
    return len(encode(_stored(spec))) + len(_asked_column(spec.request, spec.constraints))


def _stored(spec: Spec) -> tuple[object, ...]:
    later = _LATER and {name: getattr(spec, name) for name in _LATER if getattr(spec, name) != _LATER[name]}
    return (*_rest_of(spec), later) if later else _rest_of(spec)


def _spec_from(queue: str, shape: bytes, env_digest: bytes, spec: bytes) -> Spec:
    asked, rest = _asked(shape), _rest(spec)
    read = Spec(
        rest.command,
        queue,
        asked.request,
        rest.cwd,
        env_digest,
        rest.umask,
        rest.shell,
        rest.env,
        rest.own_cwd,
        asked.constraints,
        rest.by,
        split=rest.split,
        keep_children=rest.keep_children,
        grace_s=rest.grace_s,
        on_lost=rest.on_lost,
        tries=rest.tries,
    )
    # An option that this release does not know comes from a later release.
    later = rest.later and {name: value for name, value in rest.later.items() if name in _LATER}
    if not later:
        return read
    options = msgspec.convert(later, _Later)
    return msgspec.structs.replace(read, **{name: getattr(options, name) for name in later})


def waiting_groups(state: State, parts: Iterable[list[tuple[Any, ...]]]) -> list[WaitingGroup]:
    """Return the jobs of SELECT_WAITING_GROUPS, one group for each shape; of each job only its position is kept."""
    # By the columns as stored: comparing bytes costs less than decoding each row.
    alike: dict[tuple[str, bytes], array[int]] = {}
    for part in parts:
        for order, queue, shape in part:
            orders = alike.get((queue, shape))
            if orders is None:
                alike[queue, shape] = array("q", (order,))
            else:
                orders.append(order)
    groups = []
    while alike:
        # Removed one by one, so that nothing is in memory twice.
        (queue, shape), orders = alike.popitem()
        # Rows come by id, but jobs of several priorities have another order.
        if any(map(gt, orders, islice(orders, 1, None))):
            orders = array("q", sorted(orders))
        groups.append(WaitingGroup(state, _shape_from(queue, shape), orders))
    return groups


def _shape_from(queue: str, shape: bytes) -> Shape:
    """Return what the planner groups a job by, from its columns."""
    asked = _asked(shape)
    # A million shapes name the same few queues and resources.
    return intern(queue), tuple([(intern(name), amount) for name, amount in asked.request]), asked.constraints


def _asked_column(request: Request, constraints: Constraints) -> bytes:
    """Return the column `shape`."""
    return encode((request,) if constraints is ANYWHERE or constraints == ANYWHERE else (request, constraints))


def is_untold(attempt: Attempt) -> bool:
    """Tell whether an attempt has been placed and nothing more is known."""
    return _told_of(attempt) == _untold


def placed_row(attempt: Attempt) -> tuple[object, ...]:
    """Return the columns of an attempt that has just been placed."""
    where = attempt.placement
    return (attempt.job, attempt.number, where.worker, where.boot, bytearray(encode(where)))


def attempt_row(attempt: Attempt) -> tuple[object, ...]:
    """Return all columns of an attempt."""
    return (*placed_row(attempt), *map(plain, _told_of(attempt)))


@lru_cache(ALLOCATIONS_CACHED)
def _allocation(placement: bytes) -> Allocation:
    """Return what a stored placement holds. Jobs one after the other mostly hold the same; the answer is shared."""
    return _placement(placement).allocation


def past_run_from(row: tuple[Any, ...]) -> PastRun:
    """Return a run, from the columns of SELECT_RUNS_AFTER."""
    id_, queue, name, token, state, created, finished, number, last, worker, placement, *others = row
    allocation = {} if placement is None else _allocation(bytes(placement))
    is_last, state = number == last, _STATES[state]
    return PastRun(id_, queue, name, token, state, created, finished, number, is_last, worker, allocation, *others)


def attempt_from(row: tuple[Any, ...]) -> Attempt:
    """Return an attempt, from the columns of SELECT_ATTEMPTS: its fields, in their order."""
    fields = dict(zip(Attempt.__struct_fields__, row, strict=True))
    return msgspec.convert({**fields, "placement": _placement(fields["placement"])}, Attempt)
