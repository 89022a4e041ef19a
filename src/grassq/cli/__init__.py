"""The command line: one command, one process, one answer.

Enter at `fast.py`, where every call of `grass` starts. `enqueue` and `show` end there with nothing heavy imported;
all other commands go through the table in `main.py` to a file in `commands/`. `connect.py` opens the daemon or a
broker, `help.py` holds the texts, `render.py` is the only place that prints, `job_text.py` says how a job looks.

May import `sdk`, `net`, `home` and `core.syntax`. `commands/daemon.py` alone starts the daemon in this process.

When the daemon does not answer, `net.autostart` starts one and the same request is sent again with the same key: a
command never submits a job twice. When a broker elsewhere does not answer within three tries, the exit code is 4 and
nothing has changed.
"""
