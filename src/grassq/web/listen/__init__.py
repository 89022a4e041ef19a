"""Listening: sockets, certificates, and limits that hold before a token was seen.

`tcp.py` opens the TLS listener and bounds connections without a token; `certificate.py` makes or reads the
certificate; `identity.py` is what clients pin; `abort.py` cuts a connection.

May import what `grassq.web` may.

When strangers open more connections than the bound, new ones without a token are closed; a connection whose request
had a valid token does not count, so strangers cannot keep people out.
"""
