"""The connection between a broker and a worker on another machine, the same at both ends.

`connection.FramedConnection` owns numbering, limits, questions with their answers, and the end of a connection.
`grassq.core.protocol` defines the frames. The worker dials (`worker.broker_link`), the broker listens
(`web.workers.registry`). This package imports `core` only. `socket_pair.py` is such a connection within one process.

When a connection stalls, frames pile up until WAITING_MAX or WAITING_BYTES_MAX is reached. The connection is then cut,
and the worker dials again: after the next hello both ends repeat what still counts, so no old frame is needed.
"""
