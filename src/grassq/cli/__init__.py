"""The command line: one command, one process, one answer.

Enter at `fast.py`, where every call of `grass` starts. `fast.py` runs `enqueue` and `show` with few imports; `main.py`
runs every other command from its file in `commands/`. `enqueue.py` submits what was typed, `connect.py` opens the
daemon or a broker, `help.py` holds the help texts, `render.py` prints, `job_text.py` formats jobs, amounts and times.
`completion/` answers the shell at TAB, `service/` starts the daemon at boot, `manual/` makes the man page. `listing/`
has the tables of `show`, `logs/` how logs are printed, `top/` the screen of `grass top`, `inputs/` what commands read
besides their words. `progress.py` draws bars, `removal.py` says what `clean` removes, and `synonyms.py` knows the words
of other tools.

May import `sdk`, `net`, `home` and `core.syntax`. `commands/daemon.py` alone starts the daemon in this process.

When the daemon does not answer, `net.autostart` starts one and the request is sent again with the same key: a
command never submits a job twice. When a broker on another machine does not answer three tries, the exit code is 4.
"""
