"""The service: what starts the daemon of a home after a reboot.

Enter at `install.py`. With a systemd of the user the service is a unit (`unit.py`, `systemd.py`), else a line in the
user's crontab (`crontab.py`). Both start `grass daemon --saved` or `grass start`, so a broker and a worker come back as
what they were. `check.py` tells `grass doctor` why the queue would not go on after a reboot; `tools.py` runs the
programs of the system.

May import `home`, `net`, `atomic_files` and `cli.render`. Writes the unit and the crontab of this user, nothing else.

When neither systemd nor a crontab is there, or one of their programs fails, one line says what to do. Jobs keep
running in every case: the unit ends the daemon's own process only, and the daemon that takes over finds them again.
"""
