"""Access: one check before every route.

`auth.py` identifies the user of the unix socket by uid and every other client by a token. Each route states what it
needs (`open`, `read`, `submit`, `admin`, `worker`, `local`). `principal.py` is the caller as the handlers see it,
`audit.py` the file that records every change, `bodies.py` reads what a request brings.

May import what `grassq.web` may.

When a token is revoked, its connections end at once and the next request gets 401. When a client without a token tries
many codes, the audit records at most 60 failures a minute.
"""
