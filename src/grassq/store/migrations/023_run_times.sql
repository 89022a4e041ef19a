-- For how many seconds the newest attempt of a job was suspended, without a suspension that lasts; null for none.

alter table job add column suspended_s real;
