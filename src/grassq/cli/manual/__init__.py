"""The man page grass(1), made from the same tables as `grass help`.

Enter at `page.py`, which docs/generate.py calls (`make docs`). The page is kept in docs/reference/grass.1; the wheel
installs it as share/man/man1/grass.1. `parsed.py` reads what users are told from the parsers, also for the reference.

May import the commands, through `cli.main`, and `core.syntax`. No command imports this package.

When the page that is checked in differs from what the code says, a test fails.
"""
