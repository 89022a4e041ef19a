-- Ends of jobs that are to be told. A row is removed when every notice of it was sent or given up.
-- The number contains the number of the commit, so it grows.

create table untold (
    number  integer primary key,
    job_end blob not null
);
