-- Which job starts after which other one, and under which condition. An edge is met when the other job has ended, or when
-- the job itself needs it no longer; it stays, so that the jobs behind a job can be found later.

create table dependency (
    parent    integer not null,
    job       integer not null,
    condition text    not null check (condition = 'ok' or condition = 'any' or condition = 'fail'),
    met       integer not null default 0 check (met = 0 or met = 1),
    primary key (parent, job, condition)
) without rowid;

create index dependency_job on dependency (job);
create index dependency_unmet on dependency (parent) where met = 0;
