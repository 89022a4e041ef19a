"""The commands of `grass`, one file per family.

`jobs/` makes and changes jobs, `looking/` shows them, `machine/` has machines over ssh. `access.py` has join, login,
use, token and audit, `workers.py` drain and remove; `queues.py`, `limits.py`, `devices.py`, `daemon.py`, `config.py`,
`notify.py`, `store.py`, `doctor.py`, `completion.py`, `install_service.py` and `slurm_alias.py` have the commands of
these names. Each file has `build(name, parser)`, which adds arguments and sets the function to run, or
`words(name, argv)` if the daemon splits the words. `grassq.cli.main` imports only the file of the command that was
typed.

May import what `grassq.cli` may. A command asks the daemon or a broker through `net.client`, prints through
`cli.render`, and returns an exit code.

When a command fails it raises a `GrassError`: `main` prints one line and returns the error's exit code. A command
never prints a traceback and changes nothing before its arguments are checked.
"""
