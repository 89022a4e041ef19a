"""GPUPeasy: its server with the JSON API at port 8888, and its page at port 4004.

Enter at `entry.py`. `arguments.py` reads flags and environment. `http_server.py` reads requests and
writes answers, `admission.py` decides whose requests are answered, `api.py` has the routes, and
`job_lists.py` writes jobs as GPUPeasy does. `devices.py` makes the queue, with one slot for each entry of the device
list. `gui.py` opens the page of Grass at the port of GPUPeasy's.

May import what `grassq.compat` may.

When the server is killed, its queue and its jobs stay: the daemon runs them, and the next server shows them again. The
API has no token, so it answers only processes of its owner on this machine, and no browser.
"""
