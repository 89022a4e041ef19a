"""Draws again and again: in place on a terminal, one snapshot after the other in a pipe."""

from __future__ import annotations

import os
import signal
import time

from grassq.cli import render
from grassq.errors import NotFound, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: How often the screen is drawn unless --watch says otherwise, and the least time between two drawings.
EVERY_S, LEAST_S = 2.0, 0.2
#: The other screen of the terminal without a cursor, and back to the first.
_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


def watch(draw: Callable[[], list[str]], every_s: float) -> int:
    """Draw until Ctrl-C. A daemon that is away is waited for, and the screen says since when it is away.

    `draw` returns lines, or raises Unreachable. Any other error ends the watch: nothing would make it go away.
    """
    every_s = max(every_s, LEAST_S)
    return _in_place(draw, every_s) if os.isatty(1) else _in_a_pipe(draw, every_s)


def _in_a_pipe(draw: Callable[[], list[str]], every_s: float) -> int:
    lines: list[str] = []
    away_since = None
    while True:
        lines, away_since = _tried(draw, away_since, may_be_empty=bool(lines))
        said = [f"# {time.strftime('%Y-%m-%d %H:%M:%S')}", *lines] if away_since is None else [f"# {_away(away_since)}"]
        render.text("\n".join([*said, "", ""]))
        time.sleep(every_s)


def _in_place(draw: Callable[[], list[str]], every_s: float) -> int:
    lines: list[str] = []
    away_since: float | None = None
    # Without these, `kill` and Ctrl-Z would leave the terminal on its other screen.
    before = {number: signal.signal(number, act) for number, act in ((signal.SIGTERM, _end), (signal.SIGTSTP, _pause))}
    render.write_unchanged(_ENTER)
    try:
        while True:
            drawn, away_since = _tried(draw, away_since, may_be_empty=bool(lines))
            lines = drawn if away_since is None else lines
            _paint([_head(every_s, away_since), *lines])
            time.sleep(every_s)
    finally:
        render.write_unchanged(_LEAVE)
        for number, act in before.items():
            signal.signal(number, act)
        # The last picture stays behind, as after a plain `grass show`.
        if lines:
            _put("\n".join([*lines, ""]))


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _pause(number: int, frame: object) -> None:
    render.write_unchanged(_LEAVE)
    os.kill(os.getpid(), signal.SIGSTOP)
    # Here the shell has let the process go on.
    render.write_unchanged(_ENTER)


def _tried(
    draw: Callable[[], list[str]], away_since: float | None, *, may_be_empty: bool
) -> tuple[list[str], float | None]:
    """Return the lines, and since when the daemon is away or None; a selector that matches nothing may be a line."""
    try:
        return draw(), None
    except Unreachable:
        return [], time.time() if away_since is None else away_since
    except NotFound as error:
        if not may_be_empty:
            raise
        # What was selected has gone since, or has not come yet after a restart.
        return [render.clean(f"grass: {error}")], None


def _away(since: float) -> str:
    return f"the daemon has not answered since {time.strftime('%H:%M:%S', time.localtime(since))}; trying again"


def _head(every_s: float, away_since: float | None) -> str:
    text = f"grass show, every {every_s:g} s, {time.strftime('%H:%M:%S')}; Ctrl-C leaves"
    if away_since is not None:
        text = _away(away_since)
    shown, _ = render.cut(text, render.width())
    style = "" if not render.has_colours() else "\x1b[31m" if away_since is not None else "\x1b[2m"
    return f"{style}{shown}{render.PLAIN}" if style else shown


def _paint(lines: list[str]) -> None:
    """Draw over what is there; what does not fit the height is counted in the last line."""
    height = render.height()
    if len(lines) > height:
        hidden = len(lines) - height + 1
        lines = [*lines[: height - 1], f"{'…' if render.is_utf8() else '...'} {hidden} more lines"]
    _put("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")


def _put(text: str) -> None:
    render.write_unchanged(text.encode("utf-8" if render.is_utf8() else "ascii", "backslashreplace"))
