-- How the newest attempt of a job was last suspended or resumed, as JSON; null if it never was.

alter table job add column suspension text;
