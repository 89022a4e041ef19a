create table meta (
    key   text primary key,
    value text not null
);

create table environment (
    digest blob primary key,
    body   blob not null
);

create table job (
    id               integer primary key,
    queue            text    not null,
    name             text,
    state            text    not null check (state in
        ('held', 'waiting', 'queued', 'placed', 'running', 'succeeded', 'failed', 'cancelled')),
    priority         integer not null,
    reason           text,
    spec             blob    not null,
    env_digest       blob    not null references environment (digest),
    attempt          integer not null check (attempt >= 0),
    cancel_requested integer not null check (cancel_requested in (0, 1)),
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
    check ((state in ('succeeded', 'failed', 'cancelled')) = (finished is not null)),
    check (state not in ('placed', 'running') or attempt > 0),
    -- A check that is null passes: so nothing here may be null.
    check (state <> 'succeeded' or (coalesce(outcome, '') = 'exited' and coalesce(exit_code, 1) = 0))
);

create index job_state on job (state, id);
create index job_queue on job (queue, id);
create index job_name on job (name, id);
create index job_finished on job (finished);
create index job_rerun on job (rerun_of);
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
);

create table event (
    seq    integer primary key,
    job    integer not null,
    at     real    not null,
    kind   text    not null,
    detail text    not null
);

create index event_job on event (job, seq);

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
