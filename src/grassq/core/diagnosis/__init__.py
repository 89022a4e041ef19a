"""Diagnosis: what the last lines of a log tell about a job: how far the job is, and why it may have failed.

Enter through `progress.read`, which finds a progress bar or "epoch 3/10" in the last lines of a log, and through
`cause.guess`, which says why a failed job probably failed. Both take lines as a terminal would show them after all
carriage returns; `grassq.web.logs.last_lines` reads them. `nested.py` finds the outer of two nested bars in raw bytes.

Pure, like all of `core`; imports nothing but `msgspec` and `re`.

A job writes its log itself, so these lines may hold anything. Of each line a bounded part is read, every number has a
bounded length, and no pattern takes longer than the square of a short text. When a line is not understood, the answer
is None; a cause is a guess and says so.
"""
