"""The pure core: what jobs, resources and messages are, and every decision about them. No I/O, no clock, no randomness.

`model.py` has the records, `job_options.py` every option of a job, `outcome.py` how attempts end in words, `result.py`
what a job leaves as its result, `states.py` the one table of state changes. `messages.py` has what broker and worker
tell each other, `protocol.py` how that is framed between machines. `reconcile.py` decides what to order after a
restart, a lost message or a reconnect. Subpackages: `resources` (amounts, devices, what fits), `planner` (which job
starts where), `forecast` (when it does), `syntax` (what people type). `editing` has changes of waiting jobs, `term`
terminal output as lines, `diagnosis` what last lines say, `history` sums of ended jobs, `timeline` what ran on each
device, `notices` what people are told. `query` says which jobs a table shows, `sweeps` has the parameters of jobs as
columns, `batches` reads the text format of GPUPeasy. `options` has the parsers of options, `submit_notes.py` and
`offer_changes.py` notes about jobs and queues, `fair_queue.py` turns of callers, `permutation.py` a random order;
`worker_checks.py` checks what a worker sends; `suspension` has what happens to suspended jobs.

Imports `errors`, msgspec and pure modules of the standard library, nothing else; a test checks it. Clients may
import only what is about words: `syntax`, `term`, `job_options`, `outcome`, `printable`, `names`.

When an event reaches a job in a state where the table has no rule, `states.advance` raises `InvalidMove`; the broker
refuses the message and the job stays as it is. A report of an older attempt changes nothing.
"""
