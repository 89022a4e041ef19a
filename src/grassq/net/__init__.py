"""How a client reaches the daemon: raw HTTP on a unix socket, and starting the daemon when none answers."""
