-- Which worker offered a queue first: by queue, the last commit before the worker offered it.

alter table standing add column offered blob;
