-- The name of the user that paused a queue; empty for a pause that is older than this column.

alter table pause add column pauser text not null default '';
