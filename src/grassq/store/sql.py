"""Every statement, in the subset both engines know. Values are parameters, never text."""

from __future__ import annotations

JOB_COLUMNS = (
    "id, queue, name, state, priority, reason, spec, env_digest, attempt, cancel_requested, stop_grace_s, "
    "pid, tried, lost, created, ready_at, started, finished, outcome, exit_code, signal, error, rerun_of"
)

_COUNT = JOB_COLUMNS.count(",") + 1

INSERT_JOB = f"insert into job ({JOB_COLUMNS}) values ({', '.join('?' * _COUNT)})"

# The guard is the state and attempt the board believed: no row means board and store disagree.
UPDATE_JOB = """
update job set state = ?, priority = ?, reason = ?, attempt = ?, cancel_requested = ?, stop_grace_s = ?, pid = ?,
    tried = ?, lost = ?, ready_at = ?, started = ?, finished = ?, outcome = ?, exit_code = ?, signal = ?, error = ?
where id = ? and state = ? and attempt = ?
"""

INSERT_ATTEMPT = """
insert into attempt (job, number, worker, boot, placement, pid, started, ended, outcome, exit_code, signal, error)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (job, number) do update set pid = excluded.pid, started = excluded.started, ended = excluded.ended,
    outcome = excluded.outcome, exit_code = excluded.exit_code, signal = excluded.signal, error = excluded.error
"""

INSERT_EVENT = "insert into event (job, at, kind, detail) values (?, ?, ?, ?)"
INSERT_ENVIRONMENT = "insert into environment (digest, body) values (?, ?) on conflict (digest) do nothing"
INSERT_SUBMISSION = "insert into submission (key, digest, first_id, count, at, ids) values (?, ?, ?, ?, ?, ?)"
FORGET_SUBMISSIONS = "delete from submission where at < ?"
PUT_WORKER = "insert into worker (name, info) values (?, ?) on conflict (name) do update set info = excluded.info"
CLEAR_PAUSES = "delete from pause"
INSERT_PAUSE = "insert into pause (queue) values (?)"

GET_META = "select value from meta where key = ?"
PUT_META = "insert into meta (key, value) values (?, ?) on conflict (key) do update set value = excluded.value"

REMOVE_ATTEMPTS = "delete from attempt where job = ?"
REMOVE_EVENTS = "delete from event where job = ?"
# Only a finished job may be removed; anything else matches no row and fails the commit.
REMOVE_JOB = "delete from job where id = ? and state in ('succeeded', 'failed', 'cancelled')"
REMOVE_ENVIRONMENTS = """
delete from environment where not exists (select 1 from job where job.env_digest = environment.digest)
"""

_SELECT = "select " + ", ".join(f"job.{column.strip()}" for column in JOB_COLUMNS.split(",")) + ", attempt.placement"
_FROM = " from job left join attempt on attempt.job = job.id and attempt.number = job.attempt "

SELECT_ALIVE = _SELECT + _FROM + "where job.finished is null order by job.id"
SELECT_RANGE = _SELECT + _FROM + "where job.id between ? and ? order by job.id limit ?"
SELECT_LAST = _SELECT + _FROM + "where 1 = 1 order by job.id desc limit 1 offset ?"
SELECT_STATE = _SELECT + _FROM + "where job.state = ? order by job.id limit ?"
SELECT_QUEUE = _SELECT + _FROM + "where job.queue = ? order by job.id limit ?"
SELECT_NAME = _SELECT + _FROM + "where job.name = ? order by job.id limit ?"
SELECT_RECENT = _SELECT + _FROM + "where job.finished > ? order by job.finished desc, job.id desc limit ?"

SELECT_HIGHEST = "select max(id) from job"
SELECT_TOTALS = "select state, count(*) from job group by state"
SELECT_SUBMISSION = "select key, digest, first_id, count, at, ids from submission where key = ?"
SELECT_ENVIRONMENT = "select body from environment where digest = ?"
SELECT_WORKERS = "select info from worker order by name"
SELECT_PAUSES = "select queue from pause"
SELECT_ATTEMPTS = """
select job, number, placement, pid, started, ended, outcome, exit_code, signal, error
from attempt where job = ? order by number
"""
SELECT_STORY = "select job, at, kind, detail from event where job = ? order by seq"
SELECT_RERUNS = "select distinct rerun_of from job where rerun_of is not null"
