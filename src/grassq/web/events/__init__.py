"""Event streams: what happens to jobs, told as it is committed.

The streams stand on `broker.subscriptions`. `temporary_queues.py` removes a temporary queue when its last job has
ended and no subscriber is left.

May import what `grassq.web` may.

When a reader is too slow, its buffer reaches a bound and the stream ends with a line that says so; the reader
subscribes again and says what it already knows, so nothing is told twice and nothing is missed.
"""
