"""Access: one check before every route.

`auth.py` identifies the user of the unix socket by uid and every other client by a token, or by the session of a
browser. Each route states what it needs (`page`, `open`, `read`, `submit`, `admin`, `worker`, `home`, `local`).
`sender.py` tells requests of our page from those of other web sites. `principal.py` is the caller as the handlers see
it, `audit.py` the file that records every change, `bodies.py` reads what a request brings. `description.py` is what a
route says of itself. `turns.py` bounds what each caller does at once, `rate_limit.py` events in a minute.

May import what `grassq.web` may.

When a token is revoked, its connections end at once and the next request gets 401. When a client without a token tries
many codes, the audit records at most 60 failures a minute.
"""
