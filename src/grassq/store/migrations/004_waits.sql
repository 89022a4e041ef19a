-- What a waiting job waits for, separated by spaces: `time` (until `ready_at`) and `queue`. Empty in other states.

alter table job add column waits text not null default '';

update job set waits = case when ready_at is null then 'queue' else 'time' end
where state <> 'succeeded' and state = 'waiting';
