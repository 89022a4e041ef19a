"""What describes an option, and a parser for each kind of value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from grassq.core.names import Tags, check_key, check_mark, check_name, check_tags, shown
from grassq.core.notices.targets import TARGETS_MAX, read_target
from grassq.core.options.moments import check_moment, read_delays
from grassq.core.options.warning import Warn, read_warn
from grassq.core.syntax.durations import duration_s
from grassq.core.syntax.file_words import SentTree, check_inside, check_path, read_send
from grassq.core.syntax.selectors import parse as parse_selector
from grassq.core.syntax.shell_lines import wrapper_words
from grassq.errors import BadInput

#: How often an option that names files or folders may be given.
FILE_WORDS_MAX = 100
#: NAME=value pairs as bytes, in the order given; a later pair overrides an earlier one.
Pairs = tuple[tuple[bytes, bytes], ...]
#: The headings of the help.
Section = Literal["needs", "given", "treated"]

_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")

_PLACE = re.compile(r"\{[^{}]+\}")

Parse = Callable[["Option", Sequence[bytes]], Any]


class Option(Struct, frozen=True):
    """How one option is typed, read and explained."""

    #: Returns the value of the field from the typed values.
    parse: Parse
    help: str = ""
    section: Section = "treated"
    #: The name of the value in the help.
    value: str = ""
    takes: Literal["value", "flag", "maybe"] = "value"
    repeats: bool = False
    short: str | None = None
    #: Added to the error when another option for the same field is given too.
    example: str = ""
    #: Bounds of a number, also in the API.
    least: float | None = None
    most: float | None = None
    #: The option without its dashes (default: the field with dashes instead of underscores).
    name: str = ""
    field: str = ""
    #: Returns a value of the field as it is typed, where it is not typed as it is.
    written: Callable[[Any], str] | None = None

    @property
    def typed(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"


def as_text(value: bytes, what: str) -> str:
    """Decode UTF-8; raise BadInput that names `what` for other bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{what} needs text in UTF-8, not {shown(value)}") from None


def flag(_option: Option, _values: Sequence[bytes]) -> bool:
    """Return True: an option without a value was typed."""
    return True


def raw(_option: Option, values: Sequence[bytes]) -> bytes:
    """Return the value as it was typed."""
    return values[0]


def text(option: Option, values: Sequence[bytes]) -> str:
    """Return the value as text."""
    return as_text(values[0], option.typed)


def pairs(_option: Option, values: Sequence[bytes]) -> Pairs:
    """Return NAME=VALUE values as pairs, in the order typed."""
    parts = [value.partition(b"=") for value in values]
    for (name, equals, _), value in zip(parts, values, strict=True):
        if not equals or not name:
            raise BadInput(f"--env needs NAME=VALUE, not {shown(value)}")
    return tuple((name, content) for name, _, content in parts)


def number(option: Option, values: Sequence[bytes]) -> int:
    """Return the value as a whole number within the option's bounds."""
    typed, low, high = text(option, values), option.least, option.most
    if not _NUMBER.fullmatch(typed) or low is None or high is None or not low <= int(typed) <= high:
        raise BadInput(f"{option.typed} needs a whole number from {low} to {high}, not {shown(typed)}")
    return int(typed)


def number_after_first(option: Option, values: Sequence[bytes]) -> int:
    """Return the value plus one: N retries are N + 1 tries."""
    return number(option, values) + 1


def seconds(option: Option, values: Sequence[bytes]) -> float:
    """Return a duration in seconds; a number without a unit counts seconds."""
    return duration_s(text(option, values), option.typed, unit="s")


def some_seconds(option: Option, values: Sequence[bytes]) -> float:
    """Return a duration in seconds that is not shorter than the option allows."""
    found = seconds(option, values)
    if option.least is not None and found < option.least:
        raise BadInput(f"{option.typed} needs at least {option.least:g}s, not {shown(values[0])}")
    return found


def moment(option: Option, values: Sequence[bytes]) -> str:
    """Return a point in time as it was typed."""
    return check_moment(text(option, values), option.typed)


def delays(option: Option, values: Sequence[bytes]) -> tuple[float, float]:
    """Return the first and the longest of growing delays, in seconds."""
    return read_delays(text(option, values), option.typed)


def failures(option: Option, values: Sequence[bytes]) -> tuple[str, ...]:
    """Return ends of attempts: exit codes, signals and words."""
    from grassq.core.waiting.retries import read_failures  # names a job, which is made from these options

    return read_failures(text(option, values), option.typed)


def selector_texts(option: Option, values: Sequence[bytes]) -> tuple[str, ...]:
    """Return the values as selectors; what they select is decided when the job is submitted."""
    typed = tuple([as_text(value, option.typed) for value in _not_too_many(option, values)])
    for each in typed:
        try:
            parse_selector(each)
        except BadInput as error:
            raise BadInput(f"{option.typed}: {error}") from None
    return typed


def warning(option: Option, values: Sequence[bytes]) -> Warn:
    """Return a time before the limit, and the signal that is sent then."""
    return read_warn(text(option, values), option.typed)


def log_size(option: Option, values: Sequence[bytes]) -> int:
    """Return the limit of a log in bytes; 0 for none."""
    from grassq.core.resources.amounts import log_limit  # imports the options of amounts, which are made from this file

    return log_limit(text(option, values), option.typed)


def one_of(*words: str) -> Parse:
    """Return a parser of a value that is one of these words."""

    def parse(option: Option, values: Sequence[bytes]) -> str:
        typed = text(option, values)
        if typed not in words:
            raise BadInput(f"{option.typed} needs {' or '.join(map(repr, words))}, not {shown(typed)}")
        return typed

    return parse


def path(option: Option, values: Sequence[bytes]) -> bytes:
    """Return the value as a path."""
    return check_path(values[0], option.typed)


def line(option: Option, values: Sequence[bytes]) -> bytes:
    """Return the value as a line for a shell."""
    if not values[0].strip():
        raise BadInput(f"{option.typed} needs a command")
    return values[0]


def wrapper(option: Option, values: Sequence[bytes]) -> bytes:
    """Return the value as the words that come before a command, written as one line."""
    wrapper_words(values[0], option.typed)
    return values[0]


def inside(option: Option, values: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the values as paths of files in the job's directory."""
    return tuple([check_inside(value, option.typed) for value in _not_too_many(option, values)])


def patterns(option: Option, values: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the values as patterns of files in the job's directory; `.` is everything."""
    return tuple(
        [
            value if value.rstrip(b"/") == b"." else check_inside(value, option.typed)
            for value in _not_too_many(option, values)
        ]
    )


def sent(option: Option, values: Sequence[bytes]) -> tuple[SentTree, ...]:
    """Return DIR[:DEST] values as trees without manifests."""
    return tuple([read_send(value, option.typed) for value in _not_too_many(option, values)])


def _not_too_many(option: Option, values: Sequence[bytes]) -> Sequence[bytes]:
    if len(values) > FILE_WORDS_MAX:
        raise BadInput(f"{option.typed} is given {len(values)} times; {FILE_WORDS_MAX} times is the most")
    return values


def targets(option: Option, values: Sequence[bytes]) -> tuple[str, ...]:
    """Return the values as targets of notices, each once."""
    typed = dict.fromkeys(as_text(value, option.typed).strip() for value in values)
    if len(typed) > TARGETS_MAX:
        raise BadInput(f"{option.typed} is given {len(typed)} times; {TARGETS_MAX} times is the most")
    for each in typed:
        read_target(each, option.typed)
    return tuple(typed)


def named(what: str, check: Callable[[str, str], str] = check_name) -> Parse:
    """Return a parser of a value that is the name of something."""
    return lambda option, values: check(text(option, values), what)


def name_form(text: str, what: str) -> str:
    """Return the name of a job, or of the jobs of a sweep with `{NAME}` for a value; raise BadInput for others."""
    check_name(_PLACE.sub("x", text) if "{" in text else text, what)
    return text


def label_names(option: Option, values: Sequence[bytes]) -> tuple[str, ...]:
    """Return the values as labels, sorted: their order means nothing."""
    return tuple(sorted({check_mark(as_text(value, option.typed), "label") for value in values}))


def tags(option: Option, values: Sequence[bytes]) -> Tags:
    """Return KEY=VALUE values as tags; of one key the last value counts."""
    parts = [as_text(value, option.typed).partition("=") for value in values]
    for (key, equals, _), value in zip(parts, values, strict=True):
        if not equals or not key:
            raise BadInput(f"{option.typed} needs KEY=VALUE, not {shown(value)}")
    return check_tags((key, content) for key, _, content in parts)


def unique_key(option: Option, values: Sequence[bytes]) -> str:
    """Return the value as a unique key."""
    return check_key(text(option, values))


WORKER_NAME = named("worker name", check_mark)
