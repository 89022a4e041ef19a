-- The whole schema of the first release. Its number is 3: the two numbers before it were never released.
-- SQLite builds the list of an `in (...)` in a check again for every row, so the checks use `or`.

create table meta (
    key   text primary key,
    value text not null
);

insert into meta (key, value) values ('number', '0');

create table environment (
    digest blob primary key,
    body   blob not null
);

create table job (
    id               integer primary key,
    state            text    not null check (state = 'queued' or state = 'placed' or state = 'running'
        or state = 'succeeded' or state = 'failed' or state = 'cancelled' or state = 'waiting' or state = 'held'),
    priority         integer not null,
    queue            text    not null,
    name             text,
    reason           text,
    -- The request and the constraints; the planner groups jobs by these and by the queue.
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
    -- A check whose result is null passes, so this one replaces null.
    check (state <> 'succeeded' or (coalesce(outcome, '') = 'exited' and coalesce(exit_code, 1) = 0))
);

-- A succeeded job is found by the time it finished, so this index leaves succeeded jobs out.
create index job_state on job (state, id) where state <> 'succeeded';
create index job_queue on job (queue, id);
create index job_name on job (name, id) where name is not null;
create index job_finished on job (finished) where finished is not null;
create index job_rerun on job (rerun_of) where rerun_of is not null;
create index job_env on job (env_digest);

create table attempt (
    job       integer not null references job (id),
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

-- A line's number contains its commit's number and its place in the commit, so the primary key also sorts the lines.
-- The row in `job` says when the job was submitted; no line here does.
create table event (
    job    integer not null,
    number integer not null,
    at     real    not null,
    kind   text    not null,
    detail text    not null,
    primary key (job, number)
) without rowid;

create table submission (
    key      text primary key,
    digest   blob    not null,
    first_id integer not null,
    count    integer not null,
    at       real    not null,
    ids      blob    not null
);

create index submission_at on submission (at);

create table worker (
    name text primary key,
    info blob not null
);

create table pause (
    queue text primary key
);

create table standing (
    worker      text primary key,
    drained     integer not null check (drained in (0, 1)),
    ticket      text    not null,
    next_ticket text    not null
);

create table doubt (
    worker text primary key
);

create table token (
    id      text primary key,
    digest  blob    not null,
    scope   text    not null check (scope in ('read', 'submit', 'admin', 'worker')),
    name    text    not null,
    created real    not null,
    is_code integer not null check (is_code in (0, 1)),
    queues  blob,
    bare    integer not null check (bare in (0, 1)),
    expires real,
    ended   real,
    became  text
);

create table life (
    seq    integer primary key,
    life   text    not null unique,
    number integer not null
);
