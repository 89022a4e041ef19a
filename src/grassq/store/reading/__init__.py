"""How jobs are read from the tables of a store.

`jobs.py` reads whole jobs by selector, page and order; `facts.py` reads few columns of many jobs; `finished.py` reads
jobs that have ended; `sweeps.py` reads sweeps. Each class adds questions to the one below it, and
`store.relational.Store` is made of the last.

May import `core` and the files of `store` beside it. When the database cannot be read, the errors of
`store/database.py` are raised.
"""
