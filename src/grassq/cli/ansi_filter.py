"""Filters a log for a terminal: colours and carriage returns stay, every other control sequence is removed.

A colour that is still on at the end is switched off. Characters that reverse the order of a line are shown as escapes.
"""

from __future__ import annotations

import codecs
import re

from grassq.cli.render import REORDERING, visible

#: Characters of an unfinished escape sequence; a longer one is treated as text.
SEQUENCE_LIMIT = 4096

_TOKEN = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\n)|(?=\x1b[^\\])))"
    r"|(?P<control>(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~])"
    r"|(?P<escape>\x1b[ -/]*[0-Z\\^-~])"
    r"|(?P<character>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f])"
    rf"|(?P<reordering>[{REORDERING}])"
)
#: Switches off colours and everything like them, such as bold and concealed text.
_RESET = "\x1b[0m"
#: A sequence at the end of the text that is not complete yet.
_OPEN = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*\x1b?\Z|(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z"
)


class AnsiFilter:
    """Filters the bytes of a log; a sequence may be split between two calls."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        #: Whether the last sequence shown switches a colour on.
        self._is_coloured = False

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """Return the text that is safe to show now, in UTF-8; `last` ends the log."""
        content = self._pending + self._decoder.decode(data, last)
        self._pending = ""
        held = None if last else _OPEN.search(content)
        if held is not None and held.end() - held.start() <= SEQUENCE_LIMIT:
            content, self._pending = content[: held.start()], held.group()
        shown = _TOKEN.sub(_replacement, content)
        _, colour, rest = shown.rpartition("\x1b[")
        if colour:
            self._is_coloured = bool(rest.partition("m")[0].strip("0;:"))
        if last and self._is_coloured:
            shown += _RESET
            self._is_coloured = False
        return shown.encode("utf-8")


def _replacement(found: re.Match[str]) -> str:
    return found.group("colour") or (visible(found.group()) if found.group("reordering") else "")
