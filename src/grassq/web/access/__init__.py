"""Who may do what: one guard before every route.

`auth.py` knows the user of the unix socket by its uid and everybody else by a token; each route states what it needs
(`read`, `submit`, `admin`, `worker`, `local`). `principal.py` is the caller as the handlers see it, `audit.py` the
file that records every change.

May import what `grassq.web` may.

When a token is revoked, connections that use it end at once and the next request gets 401. When a stranger tries
tokens, the failures of his address are counted and slowed down; people with a token are not.
"""
