"""How control characters and escape sequences are spelled, and where they end."""

from __future__ import annotations

import codecs
import re

#: Bytes of a title or another string that are skipped; what follows them is text again.
STRING_MAX = 1 << 20

#: What is no text, no newline and no tab.
SPECIAL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]")
#: The beginning of a title or of another string.
STRING_BEGIN = re.compile(rb"\x1b[\]PX^_]|\xc2[\x90\x98\x9d\x9e\x9f]")
#: A control sequence is skipped if a control character or a character beyond ASCII breaks it.
CONTROL = re.compile(rb"(?:\x1b\[|\xc2\x9b)([0-?]{0,128})([ -/]{0,16})([@-~]|(?=[\x00-\x1f\x7f-\xff]))")
#: Any other escape sequence.
ESCAPE = re.compile(rb"\x1b[ -/]{0,16}(?:[0-~]|(?=[\x00-\x1f\x7f-\xff]))")
#: A sequence that goes on behind the end of the data.
OPEN = re.compile(rb"(?:\x1b(?:\[[0-?]{0,128}[ -/]{0,16}|[ -/]{0,16})?|\xc2(?:\x9b[0-?]{0,128}[ -/]{0,16})?)\Z")
#: What ends a string; an escape at the end of a piece may be half of an end.
STRING_END = re.compile(rb"\x07|\x1b\\|\xc2\x9c|(?=\n)|(?=\x1b[^\\])|(?=\x1b\Z)|(?=\xc2\Z)")


def unfinished(tail: bytes) -> int:
    """Return how many bytes at the end are the beginning of a character."""
    for size in range(1, min(3, len(tail)) + 1):
        if tail[-size] >= 0xC0:
            return size - (codecs.utf_8_decode(tail[-size:], "replace", False)[1])
        if tail[-size] < 0x80:
            return 0
    return 0
