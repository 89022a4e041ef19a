"""The connection between a broker and a worker on another machine, the same at both ends.

`FramedConnection` owns numbering, limits, questions with their answers, and the end of a connection; `frames` owns
what waits to be sent. What the frames say is `grassq.core.protocol`; who dials and who listens is
`worker.broker_link` and `web.workers.registry`. This package imports `core` only.

When a line stalls, frames pile up until WAITING_MAX or WAITING_BYTES_MAX is reached. The connection is then cut and
begun afresh: the next hello makes both ends say again what counts, so nothing has to be sent from the old queue.
"""
