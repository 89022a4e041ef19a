"""Valid names of jobs, queues, workers and labels, and the reserved words."""

from __future__ import annotations

import re

from grassq.core.syntax.commands import BY_NAME as COMMANDS
from grassq.errors import BadInput

STATES = ("held", "waiting", "queued", "placed", "running", "succeeded", "failed", "cancelled")

ALL = "all"
DEFAULT_QUEUE = "default"

# ASCII only, so that no two different names look alike.
NAME_PATTERN = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)

# Workers have the names of their hosts; labels are short words: a100, zone=eu.
_MARK_PATTERN = re.compile(r"[A-Za-z0-9][\w.:=/-]{0,63}", re.ASCII)

SHOWN_CHARS = 80


def check_name(text: str, what: str = "name") -> str:
    """Return the text if it is a valid name of a job or queue; else raise BadInput with the reason."""
    if (fault := _fault(text)) is not None:
        raise BadInput(f"{shown(text)} cannot be a {what}: {fault}")
    return text


def is_name(text: str) -> bool:
    """Tell whether the text is a valid name of a job or queue."""
    return _fault(text) is None


def check_existing_name(text: str, what: str) -> str:
    """Do as `check_name`, but accept the name of a command: the name may be older than the command."""
    if text in COMMANDS:
        return text
    return check_name(text, what)


def _fault(text: str) -> str | None:
    if not looks_like_name(text):
        return "start with a letter, then letters, digits, '_', '.' or '-', at most 64"
    if text in STATES:
        return "it is the name of a job state"
    if text in COMMANDS:
        return "it is the name of a command"
    return "it selects every job" if text == ALL else None


def check_mark(text: str, what: str) -> str:
    """Return the text if it is a valid worker name or label; else raise BadInput with the reason."""
    if _MARK_PATTERN.fullmatch(text) is None:
        raise BadInput(
            f"{shown(text)} cannot be a {what}: a letter or digit, then letters, digits or '_.:=/-', at most 64"
        )
    return text


def looks_like_name(text: str) -> bool:
    """Tell whether the text is spelled like a name, reserved or not."""
    return NAME_PATTERN.fullmatch(text) is not None


def shown(word: bytes | str, limit: int = SHOWN_CHARS) -> str:
    """Quote a word for a message: on one line, with any bytes, cut to `limit` characters."""
    if len(word) > limit:
        return shown(word[: limit - 3], limit) + "..."
    if isinstance(word, str):
        return repr(word)
    try:
        return repr(word.decode())
    except UnicodeDecodeError:
        return repr(word).removeprefix("b")
