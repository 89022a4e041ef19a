"""Finds the outer of two nested progress bars in the raw bytes of a log.

tqdm draws an inner bar on the line below, and moves the cursor up again: `\\n\\rinner\\x1b[A`. The outer bar is drawn
only when its own loop goes on, so it may be far before the end of the log.
"""

from __future__ import annotations

#: Bytes of a log without this sequence have no bar below another.
CURSOR_UP = b"\x1b[A"
#: The longest bar that is read.
BAR_BYTES_MAX = 1000
_NEWLINE = ord("\n")


def outer_bar(data: bytes) -> str | None:
    """Return the outer bar that was drawn last, as text; None if there is none in these bytes."""
    at = len(data)
    while (at := data.rfind(b"\r", 0, at)) >= 0:
        if at and data[at - 1] == _NEWLINE:
            continue  # the inner bar, on the line below
        drawn = data[at + 1 : at + 1 + BAR_BYTES_MAX]
        for end in (b"\r", b"\n", b"\x1b"):
            drawn = drawn.partition(end)[0]
        if drawn.strip():
            return drawn.decode("utf-8", "replace")
    return None
