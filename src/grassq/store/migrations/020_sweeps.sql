-- Sweeps, and the sweep of a job, which is also in its spec; null for a job that is part of none.

create table sweep (
    id           integer primary key,
    name         text not null,
    kind         text not null,
    definition   text not null,
    created      real not null,
    at_once      integer,
    max_fails    integer,
    stopped      text,
    counted_from integer not null,
    token        text,
    is_open      integer not null
);
create index sweep_name on sweep (name, id);
create index sweep_open on sweep (id) where is_open = 1;

alter table job add column sweep integer;
create index job_sweep on job (sweep, id) where sweep is not null;
