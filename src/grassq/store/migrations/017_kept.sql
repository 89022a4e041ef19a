-- Whether the logs of a removed job are kept: 0 no, its folder is to be removed; 1 yes, its folder is to be put aside;
-- 2 yes, and nothing is left to do on the broker's machine. Such a row stays: a worker elsewhere may ask about the job.

alter table removal add column kept integer not null default 0;
