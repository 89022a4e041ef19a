"""The web page: its files, its sessions, and the headers that keep it apart from other pages in the same browser.

`files.py` serves the built page, which has no data in it. `sessions.py` exchanges the one-time codes of `codes.py` for
sessions: a session is a token in the store, and its secret is in a cookie. `headers.py` has the headers of every
answer. `extra_doors.py` serves the page at another port, as GPUPeasy does. `grassq.web.access` decides what a session
may do; `grassq.web.listen.loopback` opens the port.

May import what `grassq.web` may.

When there is no built page, `/` says in words how to get one. A code that was not used is gone after a minute, or with
the daemon. A session survives the daemon.
"""
