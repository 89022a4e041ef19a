"""The forecast: when a job starts and ends, as intervals, and on what the interval rests.

Enter at `forecast.py` (`forecast(scene, history, enough)`). `history.py` has the run times of jobs that have ended, by
likeness (`likeness.py`): the same sweep, the same shape of command, the same queue and request. `run_times.py` makes a
distribution of them. `scene.py` is a picture of a board; `play.py` plays the queue of a scene forward with the real
planner on a virtual clock, once for each set of drawn run times (`draws.py`). `stretch.py` widens or narrows intervals
by how often earlier ones held. `hints.py` asks the planner which small change would let a waiting job start.

Pure, like all of `core`: imports `core` only; the seed and the test for "enough time spent" are passed in. Used by
`broker` and `web`.

Every loop has a bound: `JOBS_AHEAD_MAX` jobs are played, `PLAYS_MAX` plays, `RUNS_KEPT` runs of each kind of job. A job
beyond the played ones gets an estimate from the throughput of the play. When a job cannot start, or has no like runs,
it gets no estimate and the reason; nothing here raises for a strange history (0 s, years, a clock step).
"""
