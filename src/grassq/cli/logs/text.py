"""Lines of a log as text: with colours on a terminal, plain in a pipe."""

from __future__ import annotations

from typing import Any

from grassq.core.term.line import Line
from grassq.core.term.style import RESET, parse_words, sgr


def line_text(document: dict[str, Any], *, coloured: bool) -> str:
    """Return the text of a line of GET /v1/jobs/ID/log/lines."""
    parts = []
    for words, text in document.get("spans", ()):
        style = sgr(parse_words(str(words))) if coloured else ""
        parts.append(f"{style}{text}{RESET}" if style else str(text))
    return "".join(parts) + cut_note(int(document.get("cut", 0)))


def shown(line: Line, *, coloured: bool) -> str:
    """Return the text of a line."""
    return (line.coloured if coloured else line.text) + cut_note(line.cut)


def cut_note(count: int) -> str:
    """Return what is said behind a line that is cut; empty if it is whole."""
    return f" [{count:,} more characters; --raw prints them]" if count else ""
