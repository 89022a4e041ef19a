"""Event streams: committed changes of jobs, sent as they happen.

The streams read `broker.subscriptions`. `json_lines.py` sends changes of any jobs; `stream.py` sends starts, output and
ends of one queue, and `queue_pages.py` reads what the subscriber knows and the jobs that there are at the beginning.
`temporary_queues.py` deletes a temporary queue when its last job has ended and no subscriber is left.

May import what `grassq.web` may.

When a reader is too slow, its buffer reaches a bound and it must read again; it says what it already knows, so nothing
is sent twice and nothing is missed.
"""
