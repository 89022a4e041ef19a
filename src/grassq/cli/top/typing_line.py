"""The lines at the bottom: what is being typed, messages, and the keys that are listed there."""

from __future__ import annotations

from typing import NamedTuple

from textual.events import Key as KeyEvent
from textual.events import Paste

from grassq.cli.top import frame, keys
from grassq.cli.top.drawn_screen import FAILED, JOBS
from grassq.cli.top.filters import parse_filter
from grassq.cli.top.job_rows import parse_columns
from grassq.cli.top.screen_data import ScreenData
from grassq.cli.top.widgets.lines import LinesView
from grassq.errors import GrassError

#: Texts that were typed before, of each kind.
PAST_MAX = 100
#: Seconds that a message stays in the last line.
MESSAGE_S = 8.0

FILTER, SEARCH, COMMAND, COLUMNS_, PRIORITY = "filter", "search", "command", "columns", "priority"
SIGNS = {FILTER: "/", SEARCH: "search: ", COMMAND: ":", COLUMNS_: "columns: ", PRIORITY: "priority: "}


class Typing(NamedTuple):
    """What is being typed."""

    kind: str
    #: The text before it was changed; Esc brings it back.
    before: str = ""


class TypingLine(ScreenData):
    """Keys are taken here; what each does is added by the classes below it."""

    typing: Typing | None = None
    message: tuple[str, str] = ("", "")

    @property
    def is_typing(self) -> bool:
        """Whether something is being typed."""
        return self.typing is not None

    # Keys.

    def on_key(self, event: KeyEvent) -> None:
        """Do what a key stands for."""
        if self.typing is not None:
            event.prevent_default()
            self._key_while_typing(event.key, event.character if event.is_printable else None)
            return
        event.prevent_default()
        if self.take_answer_key(event.key):
            return
        if (key := keys.BY_KEY.get(event.key)) is None:
            return
        if key.changes and not self.may_change:
            why = "`:rw` switches this off" if self.is_read_only else "your token may only read"
            self.say(f"read-only: {key.shown} changes nothing; {why}", "yellow")
            return
        getattr(self, f"do_{key.action}")()

    def take_answer_key(self, key: str) -> bool:
        """Take a key as the answer to a question; return whether there was one."""
        return False

    def _key_while_typing(self, key: str, character: str | None) -> None:
        if key in ("escape", "ctrl+c"):
            self.stop_typing(is_kept=False)
        elif key == "enter":
            self._submit(self.prompt.value.strip())
        else:
            self.prompt.press(key, character)
            self.sync()

    def on_paste(self, event: Paste) -> None:
        """Type what is pasted, up to the end of its first line; without a line to type in, a paste does nothing."""
        if self.typing is not None:
            self.prompt.insert(event.text.partition("\n")[0])
            self.sync()

    # Typing.

    def begin_typing(self, kind: str, value: str = "") -> None:
        """Show the line in which something is typed."""
        self.typing = Typing(kind, value)
        self._past: dict[str, list[str]] = getattr(self, "_past", {})
        self.prompt.open(value, self._past.setdefault(kind, []))
        self.arrange()

    def stop_typing(self, *, is_kept: bool) -> None:
        """Hide the line; without `is_kept`, what it changed is undone."""
        typing, self.typing = self.typing, None
        if typing is not None and not is_kept and typing.kind == FILTER and self.filter != typing.before:
            self.set_filter(typing.before)
        self.arrange()

    def _submit(self, value: str) -> None:
        typing = self.typing
        if typing is None:
            return
        past = self._past[typing.kind]
        if value and past[-1:] != [value]:
            past.append(value)
            del past[:-PAST_MAX]
        self.stop_typing(is_kept=True)
        try:
            self.typed(typing.kind, value)
        except GrassError as error:
            self.say(str(error), "red")

    def typed(self, kind: str, value: str) -> None:
        """Do what was typed; raise BadInput if that cannot be done."""
        if kind == FILTER:
            self.set_filter(value)
        elif kind == COLUMNS_:
            self.table.widths.titles = parse_columns(value)
            self.table.widths.forget()
            self.sync()

    def set_filter(self, value: str) -> None:
        """Show only the jobs that match; marks stay."""
        self.filter = value
        tab = self.query_.tab if self.query_.tab in (JOBS, FAILED) else JOBS
        self.show_list(self.query_._replace(wanted=parse_filter(value), tab=tab))

    def typed_line(self, width: int) -> frame.Line:
        """Return the line that is being typed, with the cursor in reverse; of a long line the part at the cursor."""
        if self.typing is None:
            return []
        sign, value, cursor = SIGNS[self.typing.kind], self.prompt.value, self.prompt.cursor
        left = max(0, cursor - max(1, width - len(sign) - 2))
        at = value[cursor : cursor + 1] or " "
        return [(sign, "bold"), (value[left:cursor], ""), (at, "reverse"), (value[cursor + 1 :], "")]

    def _reason_line(self, width: int) -> frame.Line:
        if self.typing is not None and self.typing.kind == COMMAND:
            found = self.words.candidates(self.prompt.value)
            return [(frame.text(" " + "  ".join(found[:20])), "dim")] if self.prompt.value else []
        if self.typing is not None and self.typing.kind == FILTER:
            words = "id 3-7 1,4 @ failed,held queue:Q name:N worker:W text; several must all match"
            return [(f" {words}", "dim")]
        return super()._reason_line(width)

    # The last line.

    def say(self, words: str, style: str = "") -> None:
        """Say something in the last line for a while."""
        self.message = (words, style)
        if (timer := self._waits.pop("message", None)) is not None:
            timer.stop()
        self._waits["message"] = self.set_timer(MESSAGE_S, self._unsay)
        self.query_one("#foot", LinesView).sync()

    def _unsay(self) -> None:
        self.message = ("", "")
        self.query_one("#foot", LinesView).sync()

    def foot_line(self, width: int) -> frame.Line:
        """Return the last line: a message, or the keys."""
        words, style = self.message
        if words:
            return [(frame.fit(f" {frame.text(words)}", width, self.glyphs.dots), style or "bold")]
        line: frame.Line = [(" ", "")]
        for shown, hint in keys.hints(may_change=self.may_change):
            pieces = [(shown, "bold"), (f" {hint}  ", "")]
            if frame.width_of(line) + frame.width_of(pieces) <= width + 2:
                line += pieces
        return line

    def refused(self, kind: str, error: GrassError) -> None:
        """Say why a question was not answered; that the daemon is away is said in the first line."""
        if self.news.is_live or kind not in ("overview", "rows", "why"):
            self.say(str(error), "red")
