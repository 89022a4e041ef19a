"""Answers: the types of the documents that the routes themselves make, field by field.

Each file has the answers of one chapter of the API: `queues.py`, `tokens.py`, `machines.py`, `logs.py`, `changes.py`,
`forecasts.py`, `submissions.py`, `daemon.py`. What the broker makes has its types in `grassq.broker.documents`. The
comment above a field is its meaning in the OpenAPI document (`grassq.web.openapi`), where `TokenDocument` is `Token`.

May import `broker/documents`, `core` and records: types know no handler.

When a handler answers with a field that its type has not, the type checker fails, or the test that calls every route.
"""
