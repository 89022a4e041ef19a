"""The files of jobs on this computer: trees are made before a job starts, results are brought back after it has ended.

Enter at `background.py`, which runs both on threads: neither may stop the event loop. `tree.py` makes a tree,
`fetch.py` brings files back. `project_links.py` links the folders of jobs by project and name.

May import what `grassq.worker` may.

When a daemon is killed in the middle, nothing half-made is in its place: a tree and a file are made aside and renamed
when they are whole, and the next daemon begins again with what is not.
"""
