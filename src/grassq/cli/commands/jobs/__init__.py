"""Commands that make jobs and change them: `enqueue`, `run`, `sweep`, `kill` and so on, one file per family.

`grassq.core.syntax.commands` says which command is in which file; `grassq.cli.commands` says how such a file looks.
`edit_text.py` is the text that `edit.py` opens in an editor; `move.py` changes places in the line, `job_actions.py` has
kill, rerun, hold, release, priority and clean.

May import what `grassq.cli` may.

When a command fails, the daemon has changed nothing or says in its answer what was changed; the error is one line.
"""
