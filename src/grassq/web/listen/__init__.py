"""Listening: sockets, certificates, and the limits before a token is shown.

`door.py` says what the doors are: TLS for other machines, loopback for browsers of this one. `tcp.py` binds addresses
for TLS and has the `Identity` that clients pin; `loopback.py` opens the port of the web page; `admission.py` accepts
connections and limits those without a token; `certificate.py` makes or reads the certificate; `abort.py` cuts
a connection.

May import what `grassq.web` may.

When there are too many connections without a token, the oldest connection of the address with most of them is cut.
A connection with a valid token does not count, so a flood cannot keep users out.
"""
