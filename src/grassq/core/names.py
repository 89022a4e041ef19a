"""Valid names of jobs, queues, workers and labels, and the reserved words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from grassq.core.syntax.commands import BY_NAME as COMMANDS
from grassq.errors import BadInput

STATES = ("held", "waiting", "queued", "placed", "running", "succeeded", "failed", "cancelled")

ALL = "all"
DEFAULT_QUEUE = "default"

#: One letter at least, of any language: `17` and `3-7` are job ids.
NAME_PATTERN = re.compile(r"(?=.*[^\W\d_])[^\W_][\w.-]{0,63}")

# Workers have the names of their hosts; labels are short words: a100, zone=eu.
_MARK_PATTERN = re.compile(r"[A-Za-z0-9][\w.:=/-]{0,63}", re.ASCII)

SHOWN_CHARS = 80
#: How many tags a job may have, and how long the value of one and a unique key may be.
TAGS_MAX, TAG_VALUE_MAX, UNIQUE_MAX = 32, 128, 200
#: The tags of a job, sorted: a key and its value.
Tags = tuple[tuple[str, str], ...]


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
        return _spelling_fault(text)
    if text in STATES:
        return "it is the name of a job state"
    if text in COMMANDS:
        return "it is the name of a command"
    return "it selects every job" if text == ALL else None


def _spelling_fault(text: str) -> str:
    if text and not text.strip("0123456789.,-"):
        return "it has no letter, so it would be read as job ids"
    if "/" in text:
        return "scripts use names as file names, so it has no '/'"
    return "it begins with a letter or digit, then letters, digits, '_', '.' or '-', at most 64"


def check_mark(text: str, what: str) -> str:
    """Return the text if it is a valid worker name or label; else raise BadInput with the reason."""
    if _MARK_PATTERN.fullmatch(text) is None:
        raise BadInput(
            f"{shown(text)} cannot be a {what}: a letter or digit, then letters, digits or '_.:=/-', at most 64"
        )
    return text


def check_tags(pairs: Iterable[tuple[str, str]]) -> Tags:
    """Return tags sorted by key; of one key the last value counts. Raise BadInput for a wrong tag, and for too many."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if (fault := tag_fault(key, value)) is not None:
            raise BadInput(f"{shown(f'{key}={value}')} cannot be a tag: {fault}")
        found[key] = value
    if len(found) > TAGS_MAX:
        raise BadInput(f"a job has {TAGS_MAX} tags at most, not {len(found)}")
    return tuple(sorted(found.items()))


def tag_fault(key: str, value: str) -> str | None:
    """Return why a job can have no such tag; None if it can."""
    if not looks_like_name(key):
        return "its key is a name: letters, digits, '_', '.' or '-', at most 64"
    if not value or len(value) > TAG_VALUE_MAX:
        return f"its value has 1 to {TAG_VALUE_MAX} characters"
    if "," in value or "+" in value or not value.isprintable():
        return "its value has no ',' or '+', which join selectors, and no control characters"
    return None


def check_key(text: str) -> str:
    """Return the text if it can be a unique key; else raise BadInput with the reason."""
    if not text or len(text) > UNIQUE_MAX or not text.isprintable():
        raise BadInput(f"{shown(text)} cannot be a unique key: 1 to {UNIQUE_MAX} printable characters")
    return text


def looks_like_name(text: str) -> bool:
    """Tell whether the text is spelled like a name, reserved or not."""
    if NAME_PATTERN.fullmatch(text) is None:
        return False
    # Every letter has one spelling: no ligatures, no full-width forms.
    return unicodedata.is_normalized("NFKC", text)


def plain(word: bytes | str, limit: int = SHOWN_CHARS) -> str:
    """Return a word for a message without quotes: on one line, with any bytes, cut to `limit` characters."""
    if len(word) > limit:
        return plain(word[: limit - 3], limit) + "..."
    text = word if isinstance(word, str) else word.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


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
