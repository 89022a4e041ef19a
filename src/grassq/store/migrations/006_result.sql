-- What the command wrote to its result file, as compact JSON; null without a result.

alter table job add column result text;
