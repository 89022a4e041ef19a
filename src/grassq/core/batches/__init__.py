"""Batches of jobs in GPUPeasy's text format: `NAME;;OUTFILE;;COMMAND;;;`.

Enter at `batch_text.py`: `read_batch` splits a text into jobs, and says what is wrong with each part, by its line.
`job_names.py` makes a name of Grass from any text that another program calls a name.

May import `core.names` and `errors` only; it is used by the routes and by `compat`.

When one part is malformed, the other parts are still read, so that a person sees every problem at once. The callers
submit a batch whole or not at all.
"""
