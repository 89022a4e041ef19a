-- One failure is enough for a job that starts after a failure: its other edges of this condition do not matter any more.
-- Until now they stayed unmet while the job waited for something else, too.

update dependency set met = 1 where met = 0 and condition = 'fail' and job in (
    select other.job from dependency other join job failed on failed.id = other.parent
    where other.condition = 'fail' and (failed.state = 'failed' or failed.state = 'cancelled')
);
