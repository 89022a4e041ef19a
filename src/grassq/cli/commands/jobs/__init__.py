"""Commands that make jobs and change them: `enqueue`, `run`, `sweep`, `kill` and so on, one file per family.

`grassq.core.syntax.commands` says which command is in which file; `grassq.cli.commands` says how such a file looks.

May import what `grassq.cli` may.

When a command fails, the daemon has changed nothing or says in its answer what was changed; the error is one line.
"""
