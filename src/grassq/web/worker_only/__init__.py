"""The socket of a daemon that is a worker only: what concerns this machine is answered here.

`routes.py` has start, stop, queues and doctor of this machine. Everything else is the broker's.

May import what `grassq.web` may.

When the broker is out of touch, commands about this machine still work, and jobs that run here run on.
"""
