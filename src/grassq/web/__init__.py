"""The HTTP API: on the user's own unix socket, and over TLS for other machines where that was asked for.

Enter at `app.py`, the table of every route. `requests.py` has the bodies, `responses.py` the answers and how errors
are told. `routes` has the handlers, `access` the rights of callers, `submit` how a submission is checked, `events` and
`logs` the two streams, `workers` the connections of workers, `listen` sockets and certificates.

May import `broker` and `core`; of `store` the record types only, of `run` only how a program is found, of `machines`
only what a machine is.

When a client goes away, its handler ends and the job does not. When a body, a selector or a header is wrong, the
answer is one sentence with an exit code and nothing is stored; nothing a client sends ends the daemon.
"""
