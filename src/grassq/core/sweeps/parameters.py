"""The parameters of a job: those that it was given, and those that the words of its command tell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from grassq.errors import BadInput

#: The parameters of one job, and the characters of a name and of a value.
PARAMETERS_MAX = 64
NAME_CHARS_MAX, VALUE_CHARS_MAX = 64, 1000
#: The words of a command that are looked at, the characters of each, and the characters of a line for a shell.
WORDS_MAX, WORD_CHARS_MAX, LINE_CHARS_MAX = 500, NAME_CHARS_MAX + VALUE_CHARS_MAX, 4000

#: The name and the value of each parameter.
Parameters = tuple[tuple[str, str], ...]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z_][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ASSIGNED = re.compile(r"[+~]{0,2}(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
#: Without these, the words of a line are what stands between blanks; such a line is split in a hundredth of the time.
_QUOTING = re.compile(r"[\"'\\]")
#: The value of an option that stands alone.
GIVEN = "yes"


def check_parameters(given: Mapping[str, str]) -> Parameters:
    """Return parameters as a job keeps them; raise BadInput if there are too many, or one is too long."""
    if len(given) > PARAMETERS_MAX:
        raise BadInput(f"a job has {PARAMETERS_MAX} parameters at most, not {len(given)}")
    for name, value in given.items():
        if not 1 <= len(name) <= NAME_CHARS_MAX:
            raise BadInput(f"the name of a parameter has 1 to {NAME_CHARS_MAX} characters, not {len(name)}")
        if len(value) > VALUE_CHARS_MAX:
            raise BadInput(f"the value of a parameter has {VALUE_CHARS_MAX:,} characters at most, not {len(value):,}")
    return tuple(given.items())


def parameter_columns(names: Sequence[str], points: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return the values of each parameter of a sweep, job by job; what a job cannot keep is left out.

    A word may have bytes that are no text, as the system writes them; they become escapes.
    """
    found: dict[str, list[str]] = {}
    for name, values in zip(map(_as_text, names[:PARAMETERS_MAX]), zip(*points, strict=True), strict=False):
        texts = [*map(_as_text, values)]
        if 0 < len(name) <= NAME_CHARS_MAX and len(max(texts, key=len)) <= VALUE_CHARS_MAX:
            found[name] = texts
    return found


def _as_text(word: str) -> str:
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_numeric(text: str) -> bool:
    """Tell whether a text is a number such as 3, -0.5 or 1e-3."""
    return _NUMBER.fullmatch(text) is not None


def words_of(command: Sequence[str], *, is_line: bool) -> list[str]:
    """Return the first words of a command; a line for a shell is split as a shell does, or else at blanks."""
    if not is_line:
        return [word[:WORD_CHARS_MAX] for word in command[:WORDS_MAX]]
    line = " ".join(command)[:LINE_CHARS_MAX]
    if not _QUOTING.search(line):
        return line.split()[:WORDS_MAX]
    try:
        return shlex.split(line)[:WORDS_MAX]
    except ValueError:
        return line.split()[:WORDS_MAX]


def told_by(words: Sequence[str]) -> dict[str, str]:
    """Return what the words of a command set: `--lr 0.1`, `--lr=0.1`, `lr=0.1`; any other word by its place."""
    found: dict[str, str] = {}
    at = place = 0
    while at < len(words):
        word = words[at]
        at += 1
        if (option := _OPTION.fullmatch(word)) is not None:
            value = option["value"]
            if value is None and at < len(words) and not _is_option(words[at]):
                value = words[at]
                at += 1
            _put(found, option["name"], GIVEN if value is None else value)
        elif (assigned := _ASSIGNED.fullmatch(word)) is not None:
            _put(found, assigned["name"], assigned["value"])
        else:
            place += 1
            _put(found, f"word {place}", word)
    return found


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not is_numeric(word)


def _put(found: dict[str, str], name: str, value: str) -> None:
    """Note a value; a name that comes twice has both values."""
    name, value = name[:NAME_CHARS_MAX], value[:VALUE_CHARS_MAX]
    found[name] = f"{found[name]} {value}"[:VALUE_CHARS_MAX] if name in found else value


def differing(told: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names whose values are not the same in all commands, in their order, at most PARAMETERS_MAX."""
    if not told:
        return []
    names = dict.fromkeys(name for each in told for name in each)
    first = told[0]
    varied = [name for name in names if any(each.get(name) != first.get(name) for each in told)]
    return varied[:PARAMETERS_MAX]
