"""Every statement, in the subset both engines understand. Values are parameters, never text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from grassq.core.model import ORDER_BITS, SPARE_BITS

#: Statements made for the columns a write really sets; few are in use at a time.
STATEMENTS_MAX = 256

JOB_COLUMNS = (
    "id, state, priority, queue, name, reason, shape, attempt, cancel_requested, stop_grace_s, pid, tried, lost, "
    "created, ready_at, started, finished, outcome, exit_code, signal, error, rerun_of, env_digest, spec, "
    "waits, result, token, rank, project, unique_key, sweep, suspension, suspended_s"
)
# What every new job has, and what a job that has not begun does not have.
_BORN = "id, state, priority, queue, shape, created, env_digest, spec"
_NONE_YET = ("attempt", "cancel_requested", "tried", "lost")


@lru_cache(STATEMENTS_MAX)
def insert_job(others: tuple[str, ...] = ()) -> str:
    """Return an INSERT with the required columns plus the optional ones that differ from their default."""
    given = [*_BORN.split(", "), *others]
    zeros = [column for column in _NONE_YET if column not in others]
    values = ["?"] * len(given) + ["0"] * len(zeros)
    return f"insert into job ({', '.join(given + zeros)}) values ({', '.join(values)})"


@lru_cache(STATEMENTS_MAX)
def update_job(given: tuple[str, ...], cleared: tuple[str, ...]) -> str:
    """Return an UPDATE of some columns of a job.

    The guard is the state and attempt the board believed: no row means that board and store disagree.
    """
    parts = [f"{column} = ?" for column in given] + [f"{column} = null" for column in cleared]
    # A write that sets nothing is still guarded.
    return f"update job set {', '.join(parts) or 'attempt = attempt'} where id = ? and state = ? and attempt = ?"


# Every table: its columns, and its key. Rows can be written in this order of the tables.
_TABLES = {
    "meta": ("key, value", "key"),
    "environment": ("digest, body", "digest"),
    "job": (JOB_COLUMNS, "id"),
    "attempt": (
        "job, number, worker, boot, placement, pid, started, ended, outcome, exit_code, signal, error",
        "job, number",
    ),
    "event": ("job, number, at, kind, detail", "job, number"),
    "tag": ("job, key, value", "job, key"),
    "group_limit": ("name, body", "name"),
    "submission": ("key, digest, first_id, count, at, ids", "key"),
    "worker": ("name, info", "name"),
    "template": ("queue, template", "queue"),
    "pause": ("queue, pauser", "queue"),
    "standing": ("worker, drained, ticket, next_ticket, offered", "worker"),
    "doubt": ("worker", "worker"),
    "token": (
        "id, digest, scope, name, created, is_code, queues, bare, expires, ended, became, priority_max, page_of",
        "id",
    ),
    "life": ("life, number", "seq"),
    "removal": ("job, kept", "job"),
    "prediction": ("job, kind, made, low, likely, high, basis, actual", "seq"),
    "untold": ("number, job_end", "number"),
    "dependency": ("parent, job, condition, met", "parent, job, condition"),
    "sweep": (
        "id, name, kind, definition, created, at_once, max_fails, stopped, counted_from, token, is_open",
        "id",
    ),
}
# Not part of a store's content: the schema's version in PostgreSQL, and that there is a mark beside this copy.
_KEPT = {"meta": " where key not in ('schema', 'marked')"}

COUNT_ROWS = {table: f"select count(*) from {table}{_KEPT.get(table, '')}" for table in _TABLES}
SELECT_ALL = {
    table: f"select {columns} from {table}{_KEPT.get(table, '')} order by {key}"
    for table, (columns, key) in _TABLES.items()
}
EMPTY = {table: f"delete from {table}{_KEPT.get(table, '')}" for table in reversed(_TABLES)}
INSERT = {
    table: f"insert into {table} ({columns}) values ({', '.join('?' * (columns.count(',') + 1))})"
    for table, (columns, _) in _TABLES.items()
}
REMOVE = {
    table: f"delete from {table} where {_TABLES[table][1]} = ?"
    for table in ("worker", "template", "standing", "untold", "group_limit")
}


def _put(columns: str, key: str) -> str:
    others = [column for column in columns.split(", ") if column not in key.split(", ")]
    return f" on conflict ({key}) do update set {', '.join(f'{column} = excluded.{column}' for column in others)}"


#: Insert a row, or replace the row of the same key.
PUT = {
    table: INSERT[table] + _put(*_TABLES[table])
    for table in ("meta", "attempt", "worker", "template", "standing", "token", "group_limit", "sweep")
}

INSERT_PLACED = """
insert into attempt (job, number, worker, boot, placement) values (?, ?, ?, ?, ?)
on conflict (job, number) do update set pid = null, started = null, ended = null,
    outcome = null, exit_code = null, signal = null, error = null
"""
INSERT_ENVIRONMENT = "insert into environment (digest, body) values (?, ?) on conflict (digest) do nothing"
FORGET_SUBMISSIONS = "delete from submission where at < ?"
# An unused code ended when it expired.
#: Not a session that was revoked: its jobs must not start.
FORGET_CODES = (
    "delete from token where coalesce(ended, expires) < ?"
    " and (is_code = 1 or (page_of is not null and (ended is null or became is not null)))"
)

INSERT_LIFE = "insert into life (life, number) values (?, ?) on conflict (life) do nothing"
FORGET_LIVES = "delete from life where seq not in (select seq from life order by seq desc limit ?)"

INSERT_PREDICTION = INSERT["prediction"] + " on conflict (job, kind) do nothing"
JUDGE_PREDICTION = "update prediction set actual = ? where job = ? and kind = ?"
REMOVE_PREDICTION = "delete from prediction where job = ? and kind = ?"
FORGET_PREDICTIONS = "delete from prediction where seq not in (select seq from prediction order by seq desc limit ?)"

GET_META = "select value from meta where key = ?"
# Commits are numbered; the guard is the number of the commit before.
NEXT_NUMBER = "update meta set value = ? where key = 'number' and value = ?"

# The condition of an edge is met, or does not matter any more, when the parent or the job has ended.
MEET_PARENTS = "update dependency set met = 1 where parent in ({ids}) and met = 0"
# `met + 0` keeps the index of all unmet edges out of it, through which PostgreSQL may look whole for a single job.
MEET_JOBS = "update dependency set met = 1 where job in ({ids}) and met + 0 = 0"
# One failure is enough, so the other edges of this condition do not matter any more.
MEET_FAIL = "update dependency set met = 1 where job in ({ids}) and condition = 'fail' and met + 0 = 0"
SELECT_UNMET = (
    "select dependency.parent, dependency.job, dependency.condition, job.queue, job.token"
    " from dependency join job on job.id = dependency.job where dependency.met = 0"
)
SELECT_DEPENDENTS = "select distinct job from dependency where parent in ({ids}) order by job"
UNLINK_JOB = "delete from dependency where job = ?"
REMOVE_DEPENDENCIES = "delete from dependency where job in ({ids})"
REMOVE_PARENTS = "delete from dependency where parent in ({ids})"

# Only a finished job may be removed; the jobs are looked at first.
SELECT_LEAVING = "select id, state, env_digest, sweep from job where finished is not null and id in ({ids})"
REMOVE_ATTEMPTS = "delete from attempt where job in ({ids})"
REMOVE_EVENTS = "delete from event where job in ({ids})"
REMOVE_TAGS = "delete from tag where job in ({ids})"
# The job twice, and how many of its last lines stay.
TRIM_STORY = (
    "delete from event where job = ? and number <= "
    "(select number from event where job = ? order by number desc limit 1 offset ?)"
)
REMOVE_JOBS = "delete from job where id in ({ids})"
#: All that is removed with a job.
REMOVALS = (REMOVE_ATTEMPTS, REMOVE_EVENTS, REMOVE_TAGS, REMOVE_DEPENDENCIES, REMOVE_PARENTS, REMOVE_JOBS)
REMOVE_ENVIRONMENT = """
delete from environment where digest = ? and not exists (select 1 from job where job.env_digest = environment.digest)
"""

# A sweep goes with its last job.
REMOVE_SWEEP = "delete from sweep where id = ? and not exists (select 1 from job where job.sweep = sweep.id)"

#: How many ids one statement names.
IDS_AT_ONCE = 1000


@lru_cache(STATEMENTS_MAX)
def of_ids(statement: str, count: int) -> str:
    """Return a statement about this many ids."""
    return statement.format(ids=", ".join("?" * count))


def portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield ids, as many as one statement names; the last is repeated, so that few statements serve any number."""
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = ids[start : start + IDS_AT_ONCE]
        length = min(1 << (len(some) - 1).bit_length(), IDS_AT_ONCE)
        yield [*some, *[some[-1]] * (length - len(some))]


def next_ranges(
    ranges: Sequence[tuple[int, int]], low: int, high: int, count: int
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return ranges from the id `low` on that hold about `count` ids, and the id up to which they are complete."""
    chosen: list[tuple[int, int]] = []
    held, reached = 0, low - 1
    for first, last in sorted((max(first, low), min(last, high)) for first, last in ranges):
        if first > last:
            continue
        if held and held + last - first >= count:
            return tuple(chosen), reached
        chosen.append((first, last))
        held += last - first + 1
        reached = max(reached, last)
    return tuple(chosen), high


_SELECT = "select " + ", ".join(f"job.{column.strip()}" for column in JOB_COLUMNS.split(",")) + ", attempt.placement"
_FROM = " from job left join attempt on attempt.job = job.id and attempt.number = job.attempt "

_BRIEF = "select job.id, job.state, job.created, job.queue"


@lru_cache(STATEMENTS_MAX)
def brief(statement: str) -> str:
    """Return a question for whole jobs as one for BriefJob rows, which cost a small part of it."""
    return _BRIEF + statement.removeprefix(_SELECT)


SELECT_SOME = _SELECT + _FROM + "where job.id in ({ids}) order by job.id"
SELECT_RUNS = _SELECT + _FROM + "where job.rerun_of is not null and job.rerun_of in ({ids}) order by job.id"
SELECT_RANGE = _SELECT + _FROM + "where job.id between ? and ? order by job.id limit ?"
SELECT_LAST = _SELECT + _FROM + "where job.id = (select id from job order by id desc limit 1 offset ?)"
SELECT_QUEUE = _SELECT + _FROM + "where job.queue = ? and job.id between ? and ? order by job.id limit ?"
SELECT_NAME = _SELECT + _FROM + "where job.name = ? and job.id between ? and ? order by job.id limit ?"
SELECT_PROJECT = _SELECT + _FROM + "where job.project = ? and job.id between ? and ? order by job.id limit ?"
SELECT_PROJECT_NAME = (
    _SELECT + _FROM + "where job.project = ? and job.name = ? and job.id between ? and ? order by job.id limit ?"
)
SELECT_SWEEP = _SELECT + _FROM + "where job.sweep = ? and job.id between ? and ? order by job.id limit ?"
_SWEEPS = f"select {_TABLES['sweep'][0]} from sweep"
SELECT_OPEN_SWEEPS = f"{_SWEEPS} where is_open = 1 order by id"
SELECT_SWEEPS_OF_IDS = _SWEEPS + " where id in ({ids})"
SELECT_NEWEST_SWEEPS = f"{_SWEEPS} order by id desc limit ?"
SELECT_SWEEPS_BELOW = f"{_SWEEPS} where id < ? order by id desc limit ?"
SELECT_SWEEP_FILE = f"{_SWEEPS} where kind = 'file' and name = ? and coalesce(token, '') = ? order by id desc limit 1"
COUNT_IN_SWEEP = "select state, count(*) from job where sweep = ? group by state"
COUNT_FAILED_IN_SWEEP = "select count(*) from job where sweep = ? and id >= ? and state = 'failed'"
SELECT_LAST_OF_SWEEP = "select max(id) from job where sweep = ?"
_OF_TOKEN = "job.token is not null and job.finished is null"
SELECT_TOKEN = (
    _SELECT + _FROM + f"where {_OF_TOKEN} and job.token = ? and job.id between ? and ? order by job.id limit ?"
)
_TAGGED = (
    _SELECT + " from tag join job on job.id = tag.job" + _FROM.removeprefix(" from job") + "where tag.key = ? and "
)
SELECT_TAG = _TAGGED + "tag.value = ? and tag.job between ? and ? order by tag.job limit ?"
SELECT_TAG_KEY = _TAGGED + "tag.job between ? and ? order by tag.job limit ?"
LAST_TAGGED = "select job from tag where key = ? and value = ? order by job desc limit 1"
LAST_TAG_KEY = "select job from tag where key = ? order by job desc limit 1"
# No index lists these by id: the caller bounds the range of ids.
SELECT_SINCE = (
    _SELECT
    + _FROM
    + "where job.id between ? and ? and coalesce(job.finished, job.created) >= ? order by job.id limit ?"
)
SELECT_UNIQUE = "select id from job where unique_key = ? and finished is null order by id limit 1"


def _count_upto(rows: str) -> str:
    return f"select count(*) from (select 1 as one from {rows} limit ?) as counted"


COUNT_STATE = _count_upto("job where state <> 'succeeded' and state = ?")
COUNT_QUEUE = _count_upto("job where queue = ?")
COUNT_NAME = _count_upto("job where name = ?")
COUNT_PROJECT = _count_upto("job where project = ?")
COUNT_PROJECT_NAME = _count_upto("job where project = ? and name = ?")
COUNT_TOKEN = _count_upto(f"job where {_OF_TOKEN} and job.token = ?")
COUNT_SWEEP = _count_upto("job where sweep = ?")
COUNT_TAG = _count_upto("tag where key = ? and value = ?")
COUNT_TAG_KEY = _count_upto("tag where key = ?")
SELECT_RECENT = _SELECT + _FROM + "where job.finished > ? order by job.finished desc, job.id desc limit ?"

_SCAN_CONDITIONS = {
    "": "",
    "state": "job.state <> 'succeeded' and job.state = ? and ",
    "queue": "job.queue = ? and ",
    "name": "job.name = ? and ",
    "project": "job.project = ? and ",
    "sweep": "job.sweep = ? and ",
}


@lru_cache(STATEMENTS_MAX)
def scan(sort: str, descending: bool, condition: str) -> str:
    """Select the next jobs after a position, which is one number by id and three by the time of the end."""
    sign, order = ("<", "desc") if descending else (">", "asc")
    if sort == "id":
        position, ordered = f"job.id {sign} ?", f"job.id {order}"
    else:
        position = f"job.finished is not null and job.finished {sign}= ? and (job.finished {sign} ? or job.id {sign} ?)"
        ordered = f"job.finished {order}, job.id {order}"
    return f"{_SELECT}{_FROM}where {_SCAN_CONDITIONS[condition]}{position} order by {ordered} limit ?"


_FACTS = "id, state, queue, name, priority, created, started, finished, suspended_s, attempt, exit_code, project"


@lru_cache(STATEMENTS_MAX)
def facts(condition: str, first: int, worker: bool, request: bool, spec: bool) -> str:
    """Select few columns of jobs: of some ids, or from an id downwards under one condition."""
    columns = [f"job.{column}" for column in _FACTS.split(", ")[:first]]
    if worker or request or spec:
        columns += ["attempt.worker" if worker else "null"]
        columns += ["job.shape" if request else "null", "job.spec" if spec else "null"]
    where = "job.id in ({ids})" if condition == "ids" else f"{_SCAN_CONDITIONS[condition]}job.id < ?"
    tail = "" if condition == "ids" else " limit ?"
    return f"select {', '.join(columns)}{_FROM if worker else ' from job '}where {where} order by job.id desc{tail}"


# An index that leaves some rows out is used where the question itself says that it wants none of them.
_IN_STATE = "where job.state <> 'succeeded' and job.state = ? "
SELECT_STATE = _SELECT + _FROM + _IN_STATE + "and job.id between ? and ? order by job.id limit ?"
SELECT_TIMED = _SELECT + _FROM + _IN_STATE + "and job.ready_at is not null order by job.id limit ?"
SELECT_UNTIMED = _SELECT + _FROM + _IN_STATE + "and job.ready_at is null order by job.id limit ?"
# No index lists the succeeded jobs by id: the caller bounds the range of ids.
SELECT_SUCCEEDED = _SELECT + _FROM + "where job.state = 'succeeded' and job.id between ? and ? order by job.id limit ?"
# Of waiting jobs: their queue position, as `Job.order` has it, and what the planner groups by.
SELECT_WAITING_GROUPS = {
    state: f"""
select coalesce(rank, id * {1 << SPARE_BITS}) - priority * {1 << ORDER_BITS}, queue, shape
from job where state <> 'succeeded' and state = '{state}' and waits = '{waits}' order by id
"""
    for state, waits in (("queued", ""), ("waiting", "queue"))
}

SELECT_MOVED = "select rank, id from job where rank is not null and finished is null"


def _each_once(column: str, rows: str = "job where ") -> str:
    """Return what selects every value of a column once, from a prefix on, however many rows share a value.

    Each step finds the next value in the index.
    """
    wanted = f"select {column} from {rows}{column} is not null and {column}"
    return f"""
with recursive found ({column}) as (
    select * from ({wanted} >= ? order by {column} limit 1) as first
    union all
    select ({wanted} > found.{column} order by {column} limit 1)
    from found where found.{column} is not null
)
select {column} from found where {column} is not null limit ?
"""


SELECT_NAMES = _each_once("name")
SELECT_PROJECTS = _each_once("project")
SELECT_TAG_KEYS = _each_once("key", "tag where ")
#: The key is given twice: before the prefix and behind it.
SELECT_TAG_VALUES = _each_once("value", "tag where tag.key = ? and ")
SELECT_HIGHEST = "select max(id) from job"
COUNT_OTHERS = "select state, count(*) from job where state <> 'succeeded' group by state"
COUNT_NAMED = "select state, count(*) from job where name = ? group by state"
COUNT_FINISHED = "select count(*) from job where finished is not null"
COUNT_OF_TOKENS = f"select token, count(*), sum(length(spec) + length(shape)) from job where {_OF_TOKEN} group by token"
SELECT_SUBMISSION = "select key, digest, first_id, count, at, ids from submission where key = ?"
SELECT_ENVIRONMENT = "select body from environment where digest = ?"
SELECT_IDS = "select id from job where id in ({ids})"
SELECT_REMOVED_IDS = "select job from removal where job in ({ids})"
SELECT_KEPT_IDS = "select job from removal where kept > 0 and job in ({ids})"
SELECT_REMOVALS = "select job, kept from removal where kept < 2 and job > ? order by job limit ?"
# The folder of a removed job is gone, or it is put aside.
CLEAR_REMOVAL = "delete from removal where job = ? and kept = 0"
CLEAR_KEPT = "update removal set kept = 2 where job = ? and kept = 1"
SELECT_UNTOLD = "select number, job_end from untold where number > ? order by number limit ?"
SELECT_FREE_REMOVALS = """
select job, kept from removal where kept < 2 and not exists (select 1 from job where job.rerun_of = removal.job)
order by job limit ?
"""
SELECT_TOKENS = f"select {_TABLES['token'][0]} from token order by created, id"
SELECT_ATTEMPTS = """
select job, number, placement, pid, started, ended, outcome, exit_code, signal, error
from attempt where job = ? order by number
"""
_RUNS = (
    "select job.id, job.queue, job.name, job.token, job.state, job.created, job.finished,"
    " coalesce(attempt.number, 0), job.attempt, attempt.worker, attempt.placement, attempt.started, attempt.ended,"
    " attempt.outcome, attempt.exit_code, attempt.signal"
    " from job left join attempt on attempt.job = job.id where job.finished is not null and "
)
# Row values are compared left to right, so the position is one place in the index of ends.
SELECT_RUNS_AFTER = (
    _RUNS + "job.finished >= ? and (job.finished > ? or job.id > ? or (job.id = ? and coalesce(attempt.number, 0) > ?))"
    " order by job.finished, job.id, attempt.number limit ?"
)
SELECT_RUNS_BEFORE = (
    _RUNS + "job.finished <= ? and (job.finished < ? or job.id < ? or (job.id = ? and coalesce(attempt.number, 0) < ?))"
    " order by job.finished desc, job.id desc, attempt.number desc limit ?"
)
SELECT_RUNS_OF = _RUNS + "job.id in ({ids}) order by job.id, attempt.number"
SELECT_STORY = "select job, at, kind, detail from event where job = ? order by number"
SELECT_SUBMITTED = "select created, queue from job where id = ?"
SELECT_RERUNS = "select distinct rerun_of from job where rerun_of is not null"

# PostgreSQL only: how far the leader has brought the store, for a broker that stands by.
SELECT_PROGRESS = """
select (select value from meta where key = 'store_id'),
    (select life from life order by seq desc limit 1),
    (select value::bigint from meta where key = 'number'),
    greatest((select max(id) from job),
        (select max(value::bigint) from meta where key in ('highest_id', 'restored_to')))
"""
# PostgreSQL only: which broker leads. Time is the database's own, never a broker's.
LEADER_EXISTS = "select to_regclass('leader') is not null"
CREATE_LEADER = """
create table leader (
    one    bigint primary key check (one = 1),
    term   bigint not null,
    beat   timestamptz not null,
    holder text not null
)
"""
INSERT_LEADER = "insert into leader (one, term, beat, holder) values (1, 0, clock_timestamp(), '')"
# A beat from the future is as stale as an old one: the database's clock was set back, and no broker has beaten since.
# No row means that the leader is committing at this moment.
_AGE = "abs(extract(epoch from clock_timestamp() - beat))"
SELECT_LEADER = f"select holder, {_AGE} > ? from leader for update skip locked"
SELECT_STUCK_LEADER = f"select holder from leader where {_AGE} > ?"
TAKE_LEAD = "update leader set term = term + 1, beat = clock_timestamp(), holder = ? returning term"
BEAT = "update leader set beat = clock_timestamp() where term = ?"
RESIGN = "update leader set holder = '' where term = ?"
# When two brokers create the tables at the same moment, one of them does it.
TRY_LOCK = "select pg_try_advisory_xact_lock(?)"
META_EXISTS = "select to_regclass('meta') is not null"
END_SESSIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = ? and usename = current_user and pid <> pg_backend_pid()
"""
SET_SESSION = """
select set_config('statement_timeout', ?, false), set_config('lock_timeout', ?, false),
    set_config('idle_in_transaction_session_timeout', ?, false),
    set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
    set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '10000', false),
    set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)
"""
SET_PATIENCE = """
select set_config('statement_timeout', ?, true), set_config('idle_in_transaction_session_timeout', ?, true)
"""
