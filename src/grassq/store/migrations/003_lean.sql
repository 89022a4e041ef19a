-- The tables that a busy broker writes all the time, made again so that a write costs less.
-- In a check SQLite builds the list of an `in (...)` anew for every row: so each is spelled out.

create table new_job (
    id               integer primary key,
    state            text    not null check (state = 'queued' or state = 'placed' or state = 'running'
        or state = 'succeeded' or state = 'failed' or state = 'cancelled' or state = 'waiting' or state = 'held'),
    priority         integer not null,
    queue            text    not null,
    name             text,
    reason           text,
    -- What the planner groups by, besides the queue; null in rows from before, whose spec holds all.
    shape            blob,
    attempt          integer not null check (attempt >= 0),
    cancel_requested integer not null check (cancel_requested = 0 or cancel_requested = 1),
    stop_grace_s     real,
    pid              integer,
    tried            integer not null,
    lost             integer not null,
    created          real    not null,
    ready_at         real,
    started          real,
    finished         real,
    outcome          text,
    exit_code        integer,
    signal           integer,
    error            text,
    rerun_of         integer,
    env_digest       blob    not null references environment (digest),
    spec             blob    not null,
    check ((state = 'succeeded' or state = 'failed' or state = 'cancelled') = (finished is not null)),
    check (attempt > 0 or (state <> 'placed' and state <> 'running')),
    -- A check that is null passes: so nothing here may be null.
    check (state <> 'succeeded' or (coalesce(outcome, '') = 'exited' and coalesce(exit_code, 1) = 0))
);

insert into new_job (id, state, priority, queue, name, reason, attempt, cancel_requested, stop_grace_s, pid, tried,
    lost, created, ready_at, started, finished, outcome, exit_code, signal, error, rerun_of, env_digest, spec)
select id, state, priority, queue, name, reason, attempt, cancel_requested, stop_grace_s, pid, tried,
    lost, created, ready_at, started, finished, outcome, exit_code, signal, error, rerun_of, env_digest, spec
from job order by id;

create table new_attempt (
    job       integer not null references new_job (id),
    number    integer not null check (number > 0),
    worker    text    not null,
    boot      text    not null,
    placement blob    not null,
    pid       integer,
    started   real,
    ended     real,
    outcome   text,
    exit_code integer,
    signal    integer,
    error     text,
    primary key (job, number)
) without rowid;

insert into new_attempt select * from attempt order by job, number;

-- A line's number is that of its commit and its place in it, so lines need no second index to be sorted by.
create table new_event (
    job    integer not null,
    number integer not null,
    at     real    not null,
    kind   text    not null,
    detail text    not null,
    primary key (job, number)
) without rowid;

-- That a job was submitted is told by its row.
insert into new_event select job, seq, at, kind, detail from event where kind <> 'submitted' order by job, seq;

drop table attempt;
drop table event;
drop table job;
alter table new_job rename to job;
alter table new_attempt rename to attempt;
alter table new_event rename to event;

-- Every job but those that succeeded, which are found by when they did.
create index job_state on job (state, id) where state <> 'succeeded';
create index job_queue on job (queue, id);
create index job_name on job (name, id) where name is not null;
create index job_finished on job (finished) where finished is not null;
create index job_rerun on job (rerun_of) where rerun_of is not null;
create index job_env on job (env_digest);
