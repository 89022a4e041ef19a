"""What runs on the far side of an ssh connection: one POSIX sh script, and a shim where there is Python.

`script.py` puts the parts (`*.sh`) together into one file, which is named by its contents. The script needs Linux and
the usual commands: cat, head, dd, tr, awk, mv, ln, rm, mkdir, mkfifo, date, sleep; with `setsid` a command gets a
session of its own. `common.sh` has what every part uses, `supervisor.sh` runs one attempt, `limits.sh` keeps its
limits, and `command.sh` becomes its command. `serve.sh` answers the requests of `machines.far_end`, `files.sh` takes
and gives files, and `main.sh` starts the verb that is asked for. `shim_bundle.py` makes one file of the shim, for a
machine with Python.

Imports nothing of Grass.

When the connection ends, `serve` ends, and supervisors go on: the run dir says what happened.
"""
