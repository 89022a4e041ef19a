"""Edits: what can be changed of a job that has not started, under the names of the options of `enqueue`.

`values.py` has the options of a stored job as named values, and says in words how two versions differ. `changes.py`
reads changes, which a client sends as named values too, with the parsers of `grassq.core.job_options`; a new option in
that table can be edited without further code. `typed.py` writes a stored job as it would be typed.

Pure, like all of `core`: imports `core` only. Used by `broker` and `web`; `grassq.web.submit` checks the changed job as
it checks a new one.

When a name is unknown or a value cannot be read, `changes.py` raises BadInput with the message of a submission, and
nothing is changed.
"""
