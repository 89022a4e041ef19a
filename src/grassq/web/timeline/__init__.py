"""The timeline of the devices: what ran, what runs, and what is planned, as blocks on lanes.

Enter at `serve.py`, the route GET /v1/timeline. `past.py` keeps the attempts of ended jobs that were asked for lately,
newest first and within a bound, and brings them up to date by the changes that were committed. `plan.py` asks the
forecast for what comes next. `documents.py` makes the answer; blocks are merged by `core.timeline`.

May import what `grassq.web` may. Attempts are read in small batches, and blocks are merged in a thread.

A question reads only what changed since the last one; equal questions within a moment share an answer. When attempts
are not read yet, or no plan is made yet, the answer comes without them and says so. When changes were lost, all
attempts are read anew.
"""
