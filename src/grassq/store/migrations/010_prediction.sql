-- What was said about when a job starts or ends, so that it can be told how often such intervals held.
-- Only the newest rows are kept; the numbers count by themselves.

create table prediction (
    seq    integer primary key,
    job    integer not null,
    kind   text    not null check (kind = 'start' or kind = 'end'),
    made   real    not null,
    low    real    not null,
    likely real    not null,
    high   real    not null,
    -- On what the run time rested: the name, the command, the request, a progress bar.
    basis  text    not null,
    -- When the job really started or ended; null until then.
    actual real,
    unique (job, kind)
);
