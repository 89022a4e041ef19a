"""The threads of `grass top` that ask the daemon; each tells the screen by messages and waits for nothing else.

`asker.py` has `Daemon` (how to reach it) and `Asker` (one question after the other, of each kind only the latest).
`live.py` reads the stream of changes, `log_tail.py` follows the log of the selected job by its tail.

May import `net`, `core.term` and files of `cli.top` that do not draw. Never imports textual.

When the daemon is away, a thread asks again after 0.5 to 5 seconds and says so. When a thread fails in a way that was
not foreseen, `top` ends with a message: a screen that silently stopped changing would lie.
"""
