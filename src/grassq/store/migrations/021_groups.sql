-- The tags of jobs, which are also in their specs: a job has one value of a key.

create table tag (
    job   integer not null references job (id),
    key   text    not null,
    value text    not null,
    primary key (job, key)
);
create index tag_value on tag (key, value, job);
create index tag_key on tag (key, job);

-- What the jobs of a group may hold at once, encoded; the name of a group is `project:P` or `tag:k=v`.
create table group_limit (
    name text primary key,
    body blob not null
);

-- The unique key of a job with the token it belongs to; it counts until the job has ended.
alter table job add column unique_key text;
create index job_unique on job (unique_key) where unique_key is not null and finished is null;
