"""The socket of a daemon that is only a worker: requests about this machine are answered here.

`routes.py` has stop, queues and doctor of this machine. Every other request goes to the broker.

May import what `grassq.web` may.

When the broker cannot be reached, commands about this machine still work, and jobs that run here run on.
"""
