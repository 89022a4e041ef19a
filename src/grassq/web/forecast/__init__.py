"""When jobs start and end: the routes, and the forecaster behind them.

`forecaster.py` learns how long ended jobs ran, takes a picture of the board in a batch and plays it forward in a
thread. `eta.py` has GET /v1/eta; `when.py` adds the same to GET /v1/why, with what would let a job start now;
`what_if.py` plays the queue with one more job or with another capacity, and stores nothing. `recorder.py` stores
predictions of some jobs and what came of them, so that GET /v1/eta/check can tell how often intervals held.

May import what `web` may. Asynchronous; the plays are `core.forecast` and run in a thread, never on the event loop and
never inside a batch.

One forecast is made at a time, for at most `BUDGET_S`, and it answers every question that comes meanwhile: many clients
that ask all the time cost as much as one. All work in the thread is done in turn; when `WAITING_MAX` questions wait for
their turn, one more is refused. When the store cannot be read, the question fails like any other.
"""
