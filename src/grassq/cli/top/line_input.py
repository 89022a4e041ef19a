"""What may be typed after `:`: the commands of grass, with completion, and which of them change something."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from grassq.core.syntax.commands import BY_NAME, LOOKING
from grassq.errors import BadInput

#: Words after `:` that are about this screen.
OWN = ("q", "quit", "ro", "rw", "help")
#: Commands that need the terminal for themselves; `show --watch` does too.
ON_TERMINAL = frozenset({"log", "follow", "events", "wait", "run", "edit", "machine", "login", "join"})
#: Commands that cannot be used from here, and why.
REFUSED = {"top": "this is top", "daemon": "`daemon` runs until it is ended; use `start`"}
#: Commands that only look, besides those of the group Looking.
HARMLESS = frozenset({"audit", "doctor", "config", "completion"})
#: Commands that are asked about before they run.
ASKED = frozenset({"kill", "clean", "remove", "delete-queue", "stop", "restart", "logout", "drain", "store"})
#: Characters of a line that is typed.
TYPED_MAX = 4000


class CommandWords:
    """Completes what is typed: verbs, then states, queues, names and ids."""

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        """Complete commands; `known` returns the selectors that name something now."""
        self._known = known

    def candidates(self, typed: str) -> list[str]:
        """Return the words that the last word may become."""
        words = typed.split(" ")
        last = words[-1]
        every: Iterable[str] = [*_verbs(), *OWN] if len(words) == 1 else self._known()
        return [word for word in dict.fromkeys(every) if word.startswith(last)]

    def completed(self, typed: str) -> str:
        """Return the text with its last word completed as far as it is clear."""
        found = self.candidates(typed)
        head, _, _ = typed.rpartition(" ")
        if not found:
            return typed
        word = found[0] + " " if len(found) == 1 else _common(found)
        return f"{head} {word}" if head or typed.startswith(" ") else word


def _common(words: list[str]) -> str:
    """Return the characters that all words begin with."""
    first, last = min(words), max(words)
    return first[
        : next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    ]


def _verbs() -> list[str]:
    return [name for name in BY_NAME if name not in REFUSED]


def split_command(typed: str) -> list[str]:
    """Return the words of a command line; raise BadInput if a quote is missing or the command cannot be run here."""
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise BadInput(f"a quote or a word is not complete: {error}") from None
    if words[:1] == ["grass"]:
        del words[0]
    if not words:
        return []
    name = words[0]
    if name in REFUSED:
        raise BadInput(REFUSED[name])
    if name not in BY_NAME and name not in OWN:
        from grassq.core.syntax.options import closest

        near = closest(name, {*_verbs(), *OWN})
        raise BadInput(f"there is no command {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return words


def changes(words: list[str]) -> bool:
    """Tell whether a command may change something."""
    command = BY_NAME.get(words[0]) if words else None
    is_looking = command is None or command.group == LOOKING or words[0] in HARMLESS
    return not is_looking


def needs_terminal(words: list[str]) -> bool:
    """Tell whether a command reads keys, or goes on until Ctrl-C."""
    command = BY_NAME.get(words[0])
    if command is not None and command.name == "show":
        options = words[: words.index("--")] if "--" in words else words
        return any(word.partition("=")[0] == "--watch" for word in options)
    return words[0] in ON_TERMINAL


class LineEditor:
    """A line that is typed, and the place in it. Tab completes, Up and Down go through what was typed before."""

    def __init__(self, words: CommandWords) -> None:
        self._words = words
        self.value = ""
        self.cursor = 0
        self._past: list[str] = []
        self._at = 0

    def open(self, value: str, past: list[str]) -> None:
        """Begin to type, with what was typed before in reach."""
        self._set(value)
        self._past, self._at = past, len(past)

    def press(self, key: str, character: str | None) -> None:
        """Take a key: a character, or one that edits; any other does nothing."""
        before, after = self.value[: self.cursor], self.value[self.cursor :]
        if character is not None:
            self.insert(character)
        elif key in ("backspace", "ctrl+h"):
            self._set(before[:-1] + after, len(before[:-1]))
        elif key in ("delete", "ctrl+d"):
            self._set(before + after[1:], len(before))
        elif key == "ctrl+u":
            self._set(after, 0)
        elif key == "ctrl+k":
            self._set(before, len(before))
        elif key == "ctrl+w":
            kept = before.rstrip().rpartition(" ")[0]
            kept += " " if kept else ""
            self._set(kept + after, len(kept))
        elif key in ("left", "right"):
            self.cursor = min(max(0, self.cursor + (1 if key == "right" else -1)), len(self.value))
        elif key in ("home", "ctrl+a", "end", "ctrl+e"):
            self.cursor = 0 if key in ("home", "ctrl+a") else len(self.value)
        elif key == "tab":
            self._set(self._words.completed(self.value))
        elif key in ("up", "down"):
            self._at = min(max(0, self._at + (-1 if key == "up" else 1)), len(self._past))
            self._set(self._past[self._at] if self._at < len(self._past) else "")

    def insert(self, text: str) -> None:
        """Insert a text at the cursor; the line stays below TYPED_MAX characters."""
        room = max(0, TYPED_MAX - len(self.value))
        shown = "".join(each for each in text if each.isprintable())[:room]
        self._set(self.value[: self.cursor] + shown + self.value[self.cursor :], self.cursor + len(shown))

    def _set(self, value: str, cursor: int | None = None) -> None:
        self.value = value
        self.cursor = len(value) if cursor is None else cursor
