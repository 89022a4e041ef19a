"""The client side of the network: how a command or a program talks to a daemon or a broker.

Enter at `client.py`, `ApiClient`: one method for each request. `http.py` is a small HTTP/1.1 client on a unix socket
or TLS, `retry.py` repeats a request with the same key, `autostart.py` starts the daemon, `encoding.py` writes words
that are no text. `broker.py` finds and checks a broker, `broker_file.py` keeps what is known of brokers, `redeem.py`
trades a one-time code for a token, `tls.py` pins a certificate. `event_stream.py` and `log_stream.py` read what a
server streams.

Imports the standard library, `home` and `core.syntax` only: every command pays for what is imported here.

When a connection breaks in the middle of a request, nobody knows whether it was carried out. The request is sent
again with the same key, and the daemon answers with what the first one did.
"""
