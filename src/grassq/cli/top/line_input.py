"""What may be typed after `:`: the commands of grass, with completion, and which of them change something."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from grassq.core.syntax.commands import BY_NAME, LOOKING
from grassq.errors import BadInput

#: Words after `:` that are about this screen.
OWN = ("q", "quit", "ro", "rw", "help")
#: Commands that need the terminal for themselves.
ON_TERMINAL = frozenset({"log", "follow", "events", "wait", "run", "edit", "machine", "login", "join"})
#: Commands that cannot be used from here, and why.
REFUSED = {"top": "this is top", "daemon": "`daemon` runs until it is ended; use `start`"}
#: Commands that only look, besides those of the group Looking.
HARMLESS = frozenset({"audit", "doctor"})
#: Commands that are asked about before they run.
ASKED = frozenset({"kill", "clean", "remove", "delete-queue", "stop", "restart", "logout", "drain", "store"})
#: Words that a completion proposes.
PROPOSED_MAX = 12


class CommandWords:
    """Completes what is typed: verbs, then states, queues, names and ids."""

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        """`known` returns the selectors that name something now."""
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
