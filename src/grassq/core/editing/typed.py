"""A stored job as it would be typed after `grass`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import fields

from grassq.core.editing.values import options_of
from grassq.core.job_options import JOB_OPTIONS, JobOptions, Option
from grassq.core.model import Job
from grassq.core.options.warning import Warn
from grassq.core.printable import exact_span
from grassq.core.resources.amounts import ONE, amount_text
from grassq.core.syntax.file_words import SentTree

#: The options that may hold secrets.
SECRET_FIELDS = ("env", "notify")

_DEFAULTS = {field.name: field.default for field in fields(JobOptions)}
#: The first option of each field; a job that is typed again is not held.
_TYPED = {option.field: option for option in reversed(JOB_OPTIONS) if option.field not in ("hold", "request")}
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\uffff]|[\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def typed_words(job: Job, *, with_secrets: bool) -> list[bytes]:
    """Return the words after `grass` that submit a job again; without secrets, variables and notices are left out."""
    options = options_of(job)
    words = [b"enqueue"]
    for field, option in _TYPED.items():
        value = getattr(options, field)
        if value != _DEFAULTS[field] and (with_secrets or field not in SECRET_FIELDS):
            words += _written(option, value)
    amounts = [f"--{name}={amount_text(amount)}".encode() for name, amount in job.spec.request]
    return [*words, *(amounts or [b"--require={}"]), b"--", *job.spec.command]


def _written(option: Option, value: object) -> Iterator[bytes]:
    """Yield the words of one option."""
    name = option.typed.encode()
    if option.written is not None:
        yield name + b"=" + option.written(value).encode()
    elif option.takes == "flag" or value == b"":
        yield name
    elif option.repeats and isinstance(value, tuple):
        for each in value:
            yield name + b"=" + _value(option, each)
    else:
        yield name + b"=" + _value(option, value)


def _value(option: Option, value: object) -> bytes:
    match value:
        case bytes():
            return value
        case SentTree():
            is_plain = not value.dest and b":" not in value.folder
            return value.folder if is_plain else value.folder + b":" + (value.dest or b".")
        case (bytes() as name, bytes() as content):
            return name + b"=" + content
        case (str() as key, str() as text):
            return f"{key}={text}".encode()
        case int() if option.field == "log_max":
            return _size(value)
        case Warn():
            return value.typed.encode()
        case float():
            return exact_span(value).encode()
        case _:
            return str(value).encode()


def _size(count: int) -> bytes:
    """Return the limit of a log as it is typed; a limit in MiB is read back as the same number of bytes."""
    return f"{amount_text(count * ONE >> 20)}M".encode() if count else b"none"


def shell_line(words: Sequence[bytes]) -> str:
    """Return words as one line that a shell reads as exactly these words; control characters become escapes."""
    return " ".join(map(_quoted, words))


def _quoted(word: bytes) -> str:
    try:
        text = word.decode()
    except UnicodeDecodeError:
        text = ""
    if text and not _UNPRINTABLE.search(text):
        return shlex.quote(text)
    if not word:
        return "''"
    return "$'" + "".join(_escaped(byte) for byte in word) + "'"


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in "\\'":
        return f"\\{character}"
    return character if 32 <= byte < 127 else f"\\x{byte:02x}"
