"""Commands that look at jobs and change nothing: `show`, `log`, `why`, `eta`, `wait`, `events`, one file per family.

`grassq.core.syntax.commands` says which command is in which file; `grassq.cli.commands` says how such a file looks.
`logs.py` has log and follow, `web.py` opens the web page; `history.py`, `top.py` and `what_if.py` have the commands of
these names.

May import what `grassq.cli` may. `show` is the most frequent command, so its file imports little.

When the daemon goes away while a command follows something, the command waits for the daemon and goes on from there.
"""
