"""The live stream of a page: what changed, on one WebSocket per page, as state and never as a queue.

Enter at `serve.py`, the routes. `messages.py` is the one place where messages of pages are checked. `hub.py` hears of
committed changes, reads what changed once for all pages, and gives every page that is ready a frame; `page.py` is one
page: what it wants, what it was sent, and at most one frame that it has not taken. `log_view.py` follows one log for
all pages that show it, and `folded_log.py` has its last lines; `looks.py` looks at the ends of logs of shown jobs.
`documents.py` has the types of the frames.

May import what `grassq.web` may. Used from the event loop; logs are folded in threads.

Between two changes nothing is computed and no timer of a page ticks. A page that reads slowly gets fewer and newer
frames; a page that takes nothing for `STALLED_S` is cut. A message that is wrong, or one too many, ends the page's
connection with words. When the store cannot be read, the pages keep what they have and get the rest later.
"""
