"""The store: where jobs are kept. The broker is its only writer.

`base.py` says what a store promises, method by method; one conformance suite checks every implementation. `sql.py`
has every statement, in a subset both engines understand; `relational.py` is the store above it, `sqlite.py` and
`postgres.py` are the two engines, `rows.py` turns jobs into rows and back. `migrations/` has numbered, forward-only
steps; `copy.py` moves a whole store.

May import `core`. Synchronous: one thread owns the writing connection.

When a row to be changed is not as the broker believes, the guard of the statement matches nothing, `GuardFailed` is
raised and the whole batch is rolled back: memory is wrong then, never the store. On PostgreSQL every commit first
proves that this broker still leads; a broker that was taken over changes nothing and stops.
"""
