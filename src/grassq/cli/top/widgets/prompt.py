"""Prompt: the line in which a filter, a command or a number is typed."""

from __future__ import annotations

from textual.widgets import Input

from grassq.cli.top.line_input import CommandWords


class Prompt(Input):
    """The line in which a filter or a command is typed. Tab completes, Up and Down go through what was typed before."""

    DEFAULT_CSS = """
    Prompt { height: 1; width: 1fr; border: none; padding: 0; background: transparent; }
    Prompt:focus { border: none; background: transparent; }
    """

    def __init__(self, words: CommandWords, *, id: str) -> None:
        super().__init__(id=id, compact=True, select_on_focus=False)
        self._words = words
        self.past: list[str] = []
        self._at = 0

    def open(self, value: str, past: list[str]) -> None:
        """Begin to type, with what was typed before in reach."""
        self.value = value
        self.cursor_position = len(value)
        self.past, self._at = past, len(past)

    def complete(self) -> None:
        """Complete the word before the cursor as far as it is clear."""
        self.value = self._words.completed(self.value)
        self.cursor_position = len(self.value)

    def recall(self, by: int) -> None:
        """Show what was typed before, or after."""
        self._at = min(max(0, self._at + by), len(self.past))
        self.value = self.past[self._at] if self._at < len(self.past) else ""
        self.cursor_position = len(self.value)
