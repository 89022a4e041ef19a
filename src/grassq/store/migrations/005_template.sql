-- Queues defined at the broker: every worker whose labels match offers them.

create table template (
    queue    text primary key,
    template blob not null
);
