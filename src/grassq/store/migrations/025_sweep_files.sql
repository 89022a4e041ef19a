-- Of the sweeps of a name only those in files are looked for, those of one token, newest first.

drop index sweep_name;
create index sweep_file on sweep (name, coalesce(token, ''), id) where kind = 'file';
