"""Summaries: what a screen about all jobs shows, however many jobs there are.

Enter through `brief.brief`, the answer for one screen: what runs, what is next, what is held up, the last failures, and
counts of the rest. `sweeps.py` counts the jobs of each sweep; `directory.py` tells in which directory a job ran.

May import what `grassq.broker` may. Every list here is bounded by a number at the top of its file, and every count
comes from tallies of the store or of the board, so no summary reads all jobs.

When there are more jobs than a list holds, the counts still have all of them. When a name was never counted since the
daemon started, the store counts its jobs once.
"""
