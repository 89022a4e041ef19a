"""How the value of an option is read: one parser for each kind of value, and what describes an option.

`parsers.py` has `Option` and the parsers; `moments.py` reads times and delays, `warning.py` the signal before a time
limit, `signal_names.py` names signals.
`grassq.core.job_options` is the table of every option of a job, and `grassq.core.syntax.options` has those of
`create-queue`; both name a parser of this package for each option.

Pure, like all of `core`: imports `core` only.

When a value cannot be read, a parser raises BadInput, which names the option, says what is wrong and what to write
instead; nothing is stored.
"""
