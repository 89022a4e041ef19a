"""Summaries: what a screen about all jobs shows, however many jobs there are.

Enter through `brief.brief`, the answer for one screen: what runs, what is next, what is held up, the last failures, and
counts of the rest. `fleet.py` makes the documents of queues and workers, `devices.py` those of devices, and
`directory.py` tells in which directory a job ran. `sweeps.py` counts the jobs of each sweep, `line.py` lists the queued
jobs in their order; `live.py` is what an open page is sent, `timeline.py` what a timeline needs of the board.

May import what `grassq.broker` may. Every list here is bounded by a number at the top of its file, and every count
comes from tallies of the store or of the board, so no summary reads all jobs.

When there are more jobs than a list holds, the counts still have all of them. When a name was never counted since the
daemon started, the store counts its jobs once.
"""
