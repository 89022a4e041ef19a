-- The project of a job, which is also in its spec; null without one.

alter table job add column project text;
create index job_project on job (project, id) where project is not null;
create index job_project_name on job (project, name, id) where project is not null;
