"""Actions on many jobs, done in bounded steps: kill, requeue, hold, release, suspend, resume, priority, rerun, clean.

`bulk.BulkChange` runs an action: it reads the selected jobs page by page, fixes the set, and changes at most
`bulk.STEP_JOBS` jobs in each commit. Between two steps the engine handles other requests. `jobs` says what each action
does to a job, `suspend` what those do that stop processes. `Engine.change_in_steps` runs one step after the other.
`edit` changes jobs that have not started, and `move` their places in the line. `preview` counts what an action would
change, `removable` what a clean would remove; `dry_run` tells what a submission would do; `limits` sets what groups of
jobs may hold at once.

This package may import the rest of `broker`, `store.base` and `core`; `web` calls it.

When the daemon is killed while `grass kill all` is at job 40,000 of 100,000, the set and every finished step are in the
store under the request's key. The client repeats its request with the same key; the next daemon finds the set, skips
the steps that were committed, and goes on with the rest. No job is changed twice, no rerun is submitted twice.
"""
