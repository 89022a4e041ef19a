-- The token that answers for a job, and how high the holder of a token may set priorities.

alter table job add column token text;
create index job_token on job (token, id) where token is not null and finished is null;
alter table token add column priority_max integer;
