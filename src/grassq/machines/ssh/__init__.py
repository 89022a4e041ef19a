"""The user's own OpenSSH as a transport: one supervised login per machine, and sessions over it.

`target.py` reads what people type, `options.py` is the command line of ssh. `master.py` keeps the one ssh process that
is logged in, and `control_folder.py` the place of its control socket. `mux.py` asks that process for sessions, in
OpenSSH's own protocol: so a session is never a new login. `transport.py` puts them together; `failures.py` says in
words why a login failed, and `backoff.py` when to try again.

May import `core`, `run` and `machines.transport`; the standard library.

When the ssh process ends, stops or hangs, or the server does, every call ends by its own deadline: LinkLost while
connected, LoginFailed before. When the daemon is killed, its ssh processes end with it.
"""
