-- What a broker with workers on other machines keeps.

insert into meta (key, value) values ('number', '0');

create table standing (
    worker      text primary key,
    drained     integer not null check (drained in (0, 1)),
    ticket      text    not null,
    next_ticket text    not null
);

create table doubt (
    worker text primary key
);

create table token (
    id      text primary key,
    digest  blob    not null,
    scope   text    not null check (scope in ('read', 'submit', 'admin', 'worker')),
    name    text    not null,
    created real    not null,
    is_code integer not null check (is_code in (0, 1)),
    queues  blob,
    bare    integer not null check (bare in (0, 1)),
    expires real,
    ended   real,
    became  text
);

create table life (
    seq    integer primary key,
    life   text    not null unique,
    number integer not null
);
