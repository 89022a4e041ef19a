"""A line of terminal output as people see it."""

from __future__ import annotations

from typing import NamedTuple

from grassq.core.term.style import RESET, sgr


class Span(NamedTuple):
    """A text in one style; `style.py` says what the integer means."""

    style: int
    text: str


class Line(NamedTuple):
    """A line, and where it comes from."""

    #: Counted from 1.
    number: int
    #: The line begins at this byte; every byte that was written to the line is before `end`.
    begin: int
    end: int
    spans: tuple[Span, ...]
    #: How often the line was written over: 4,312 for a progress bar that was drawn 4,313 times.
    updates: int = 0
    #: How many characters beyond the longest line are left out.
    cut: int = 0

    @property
    def text(self) -> str:
        """The text without styles."""
        return self.spans[0].text if len(self.spans) == 1 else "".join(span.text for span in self.spans)

    @property
    def coloured(self) -> str:
        """The text with its styles as escape sequences; every style is switched off at its end."""
        return "".join(f"{sgr(style)}{text}{RESET}" if style else text for style, text in self.spans)
