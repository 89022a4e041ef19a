"""What a job wrote, made safe to show: colours and progress bars stay, whatever could take over a terminal goes."""

from __future__ import annotations

import codecs
import re

#: An escape sequence longer than this is no sequence.
SEQUENCE_LIMIT = 4096

_TOKEN = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\n)|(?=\x1b[^\\])))"
    r"|(?P<control>(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~])"
    r"|(?P<escape>\x1b[ -/]*[0-Z\\^-~])"
    r"|(?P<character>[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f])"
)
#: A sequence whose end has not come yet.
_OPEN = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*\x1b?\Z|(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z"
)


class AnsiFilter:
    """A filter for the bytes of a log on their way to a terminal; sequences may be cut anywhere between two calls."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """The part of `data` that may be shown now."""
        content = self._pending + self._decoder.decode(data, last)
        self._pending = ""
        held = None if last else _OPEN.search(content)
        if held is not None and held.end() - held.start() <= SEQUENCE_LIMIT:
            content, self._pending = content[: held.start()], held.group()
        shown = _TOKEN.sub(lambda found: found.group("colour") or "", content)
        return _strays(shown).encode("utf-8")


def _strays(content: str) -> str:
    # What no rule above took is not a whole sequence: without its first character it is plain text.
    return re.sub(r"\x1b(?!\[[0-9;:]*m)", "", content)
