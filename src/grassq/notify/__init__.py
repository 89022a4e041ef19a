"""Tells people that jobs, sweeps and queues are over: by a command, a URL, the desktop or apprise.

The broker stores an end that is to be told in the same commit as the end itself (table `untold`). `Notifier` reads
these ends, makes notices of them by the rules of the settings and by what the jobs name, and gives them to `Outbox`,
which has a lane for each target: a lane sends one notice after the other and tries again. An end is removed from the
store when every notice of it was sent or given up, so after a crash it is told again: at least once. `senders.py` sends
one notice, with `bounded_command.py` or `apprise_child.py`; `record.py` remembers deliveries, `sweep_watch.py` knows
when a sweep is over. The classes are in `notifier.py` and `outbox.py`.

Enter at `Notifier`; `daemon` builds and closes it. It may import `core`, `broker` and the small files beside
them. `web` shows what `Notifier` says of itself.

When a target does not answer, only its own lane waits. When a lane is full, its oldest notice is dropped and counted.
When the store cannot be read or written, the ends stay there and are read again.
"""
