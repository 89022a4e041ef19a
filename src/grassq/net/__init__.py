"""The client side of the network: how a command or a program talks to a daemon or a broker.

Enter at `client.py`, `ApiClient`: requests and their answers. `http.py` is a small HTTP/1.1 client on a unix socket
or TLS, `retry.py` repeats a request with the same key, `autostart.py` starts the daemon, `encoding.py` writes words
that are no text. `broker.py` finds and checks a broker, `broker_file.py` keeps the known brokers, `redeem.py` exchanges
a one-time code for a token, `tls.py` pins a certificate. `event_stream.py` and `log_stream.py` read streams.
`log_lines.py` reads lines of a log, `page_link.py` makes links to the web page. `cannot_start.py` tells of jobs that
cannot start while a caller waits for them.

Imports the standard library, `home` and `core.syntax` only: every command pays for what is imported here.

When a connection breaks during a request, the client cannot know whether the request was carried out. It sends the
request again with the same key, and the daemon answers with the result of the first one.
"""
