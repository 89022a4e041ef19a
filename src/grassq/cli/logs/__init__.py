"""How logs look on a terminal and in a pipe: as lines, in a pager, live, and of several jobs at once.

`text.py` makes text of the lines that the daemon answers with. `pager.py` shows long text with $PAGER. `live_view.py`
draws a log that grows, so that bars move as they would without Grass. `several.py` prints and follows the logs of
several jobs, each line with its job. `selection.py` chooses the lines that a command asks for.

Imports `cli.render`, `core.term` and `net`; `cli.commands.looking.logs` uses the package.

When a terminal is narrower than a line, the line wraps and bars are still drawn over themselves; when a pager ends
before the log, the rest is not read. What a job wrote reaches a terminal only as text and colours.
"""
