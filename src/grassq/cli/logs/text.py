"""Lines of a log as text: with colours on a terminal, plain in a pipe."""

from __future__ import annotations

import re
from typing import Any

from grassq.core.term.line import Line
from grassq.core.term.row import REORDERING
from grassq.core.term.screen import fold
from grassq.core.term.style import RESET, parse_words, sgr

_CONTROLS = re.compile(f"[\x00-\x08\x0a-\x1f\x7f-\x9f{REORDERING}]")


def line_text(document: dict[str, Any], *, coloured: bool) -> str:
    """Return the text of a line of GET /v1/jobs/ID/log/lines."""
    parts = []
    for words, text in document.get("spans", ()):
        style = sgr(parse_words(str(words))) if coloured else ""
        parts.append(f"{style}{safe(str(text))}{RESET}" if style else safe(str(text)))
    return "".join(parts) + cut_note(int(document.get("cut", 0)))


def safe(text: str) -> str:
    """Return a text of the daemon without anything that controls a terminal; a daemon that is ours sends none."""
    if not _CONTROLS.search(text):
        return text
    return " ".join(line.text for line in fold(text.encode("utf-8", "replace")))


def shown(line: Line, *, coloured: bool) -> str:
    """Return the text of a line."""
    return (line.coloured if coloured else line.text) + cut_note(line.cut)


def cut_note(count: int) -> str:
    """Return what is said behind a line that is cut; empty if it is whole."""
    return f" [{count:,} more characters; --raw prints them]" if count else ""
