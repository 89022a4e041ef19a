-- The place of a job among jobs of equal priority, if it was moved there; null: the place by its id.

alter table job add column rank integer;
create index job_rank on job (rank) where rank is not null and finished is null;
