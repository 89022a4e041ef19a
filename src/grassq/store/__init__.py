"""The store: where jobs are kept. The broker is its only writer.

`relational.py` says what a store promises, method by method; one conformance suite checks it on every engine.
`base.py` has what a store is given and gives back; `database.py` runs statements. `sql.py` has every statement, in a
subset both engines understand; `rows.py`, `broker_rows.py` and `wait_words.py` turn jobs and other records into rows
and back. `sqlite.py` and `postgres.py`, with `postgres_session.py`, are the two engines; `open.py` opens the store
that a setting names. `migrations/` has numbered, forward-only steps, which `schema.py` reads; `copy.py` moves a whole
store. `reading/` has the questions about jobs, `tallies.py` counts; `high_water.py` is a mark beside the store.

May import `core`. Synchronous: one thread owns the writing connection.

When a row to be changed is not as the broker believes, the guard of the statement matches nothing, `GuardFailed` is
raised and the whole batch is rolled back: memory is wrong then, never the store. On PostgreSQL every commit first
proves that this broker still leads; a broker that was taken over changes nothing and stops.
"""
