-- Jobs that were removed from the store and whose folders may still be there.

create table removal (
    job integer primary key
);
