"""The query of a table of jobs: `state:failed queue:q gpu>0 since:2d name:lr* id:3-7 words of a command`.

Enter at `parse.py`, which reads a text, or at `query.py`, which says whether a job matches. Words of one key are
alternatives; words of different keys must all be true; so must comparisons and plain words. A word in quotes is always
searched for in names and commands. `docs/howto/find-jobs.md` lists every word.

    parse.py    a text -> Query; an error has the word and what is known
    query.py    Query, JobFacts, and which columns of a job a query needs
    selecting.py    whether a selector of a command names a job

Pure: imports `core` only, and time comes in as a number.

When a text cannot be read, the reader raises BadInput with one line, and nothing was looked for.
"""
