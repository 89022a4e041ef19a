"""Documents: the types of what users see of jobs, queues and workers, field by field.

`job.py` has a job, `fleet.py` queues and workers, `overview.py` the answers of `show`, `why.py` why a job waits,
`when.py` forecasts, `limits.py` limits of groups. The functions that make them are in `broker/views.py`,
`broker/summary`, `broker/actions` and `broker/forecasts`; the type checker proves that they make every field. The
comment above a field is its meaning in the OpenAPI document (`grassq.web.openapi`), where `JobDocument` is `Job`.
`texts.py` writes times and words.

May import `core` only: types know no maker.

When a maker gets a new field, its type gets the field too, or the type checker fails. When an answer has a field that
its type has not, a test of every route fails.
"""
