"""A sweep in a file: `name`, `command`, `params` and the options of its jobs, in TOML."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from grassq.core.job_options import JOB_OPTIONS
from grassq.core.options.parsers import Option
from grassq.core.sweeps.arrays import TASKS_MAX
from grassq.core.sweeps.exclusions import read_exclusion
from grassq.core.sweeps.grid import GridSearch
from grassq.core.sweeps.parameters import VALUE_CHARS_MAX, parameter_columns
from grassq.core.sweeps.points import Points
from grassq.core.sweeps.ranges import expanded
from grassq.core.syntax.options import closest
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.core.syntax.shell_lines import plain_words
from grassq.errors import BadInput

#: The bytes of a file.
SWEEP_FILE_BYTES_MAX = 1 << 20

_OWN = ("name", "command", "params", "points", "exclude", "at-once", "max-fails")
#: The options of a job that a file may name; the name of the jobs is that of the sweep.
_OPTIONS: dict[str, Option] = {option.name: option for option in JOB_OPTIONS if option.name != "name"}
#: What is filled in for each point.
_FILLED = "command, name, env or output"
#: `{name}`, `{name:>8}` and `{name!r}`; a doubled brace is text.
_ASKED = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_TOO_LONG = "a number has thousands of digits; write it as a text in quotes"
_AT = re.compile(r" \(at line (\d+), column \d+\)$")


class SweepFile(Struct, frozen=True, kw_only=True):
    """A sweep as a file describes it."""

    name: str
    #: A line, or a program and its arguments, with `{NAME}` for values.
    command: str | tuple[str, ...]
    parameters: dict[str, list[str]]
    #: A file with points, relative to the sweep's file.
    points: str | None = None
    exclude: tuple[str, ...] = ()
    at_once: int | None = None
    max_fails: int | None = None
    #: The options of the jobs as they are typed after `grass enqueue`.
    words: tuple[str, ...] = ()


def read_sweep_file(content: bytes, file: str) -> SweepFile:
    """Read a sweep; raise BadInput with the file, the line if it is known, and the key for whatever is wrong."""
    if len(content) > SWEEP_FILE_BYTES_MAX:
        raise BadInput(
            f"{file}: more than {SWEEP_FILE_BYTES_MAX >> 10} KiB is not a sweep; put points into a file of points"
        )
    try:
        text = content.decode()
        # Numbers stay as they are written.
        table = tomllib.loads(text, parse_float=str)
    except UnicodeDecodeError:
        raise BadInput(f"{file}: it is not text in UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _AT.search(str(error))
        where = f", line {found[1]}" if found else ""
        raise BadInput(f"{file}{where}: it is not TOML: {_AT.sub('', str(error)).lower()}") from None
    except ValueError:
        # Python reads no whole number of more than 4,300 digits.
        raise BadInput(f"{file}: {_TOO_LONG}") from None
    return _Reader(file, text).read(table)


class _Reader:
    """Reads the keys of one file."""

    def __init__(self, file: str, text: str) -> None:
        self._file, self._lines = file, text.split("\n")

    def read(self, table: dict[str, Any]) -> SweepFile:
        given: dict[str, Any] = {}
        for key, value in table.items():
            name = key.replace("_", "-")
            if name in given:
                raise self._fault(key, f"{name} is given twice")
            given[name] = value
        words: list[str] = []
        for key, name in zip(table, given, strict=True):
            if name not in _OWN:
                words += self._option(key, name, table[key])
        params = given.get("params", {})
        if not isinstance(params, dict):
            raise self._fault("params", 'write a table: [params], then lr = [0.1, 0.01] or lr = "log:1e-5..1e-1:20"')
        points = self._text(given, "points") if "points" in given else None
        if not params and points is None:
            raise BadInput(f"{self._file}: there is no params and no points, so nothing varies")
        described = SweepFile(
            name=self._text(given, "name"),
            command=self._command(given),
            parameters={name: self._values(name, value) for name, value in params.items()},
            points=points,
            exclude=tuple(self._texts(given, "exclude")),
            at_once=self._number(given, "at-once"),
            max_fails=self._number(given, "max-fails"),
            words=tuple(words),
        )
        self._check_names(described)
        return described

    def _check_names(self, described: SweepFile) -> None:
        """Refuse a parameter that nothing uses: it would make every point new and change no command.

        Refuse also `{name}` without values; which columns a file of points has is not known here.
        """
        names = described.parameters
        command = [described.command] if isinstance(described.command, str) else described.command
        texts = [("command", word) for word in command] + [("name", described.name)]
        asked = [(key, name) for key, text in texts for name in _asked(text, names)]
        used = {name for _, name in asked}
        for option, typed in zip(described.words, described.words[1:], strict=False):
            if option in ("--env", "--output"):
                used |= {*_asked(typed, names)}
        for name in names:
            if name not in used:
                raise self._unused(name, used - names.keys())
        if described.points is not None:
            return
        for key, name in asked:
            if name not in names:
                literal = f"or write {{{{{name}}}}} for the text {{{name}}}"
                raise self._fault(key, f"{{{name}}} has no values: add {name} below [params], {literal}")
        for text in described.exclude:
            try:
                read_exclusion(text, names)
            except BadInput as error:
                raise self._fault("exclude", str(error).removeprefix("--exclude ")) from None

    def _unused(self, name: str, without_values: set[str]) -> BadInput:
        if meant := closest(name, without_values):
            hint = f"; did you mean {meant}?"
        elif name.replace("_", "-") in {*_OWN, *_OPTIONS, *COMMON_RESOURCES}:
            hint = "; the keys of the sweep stand above [params]"
        else:
            hint = ", so each command would come several times; write it where its value belongs"
        return self._fault(name, f"there is no {{{name}}} in {_FILLED}{hint}", below="params")

    def _fault(self, key: str, why: str, below: str | None = None) -> BadInput:
        line = self._line(key, (self._line(below) or 1) - 1 if below else 0)
        if line is None and below:
            line = self._line(below)
        where = f", line {line}" if line else ""
        return BadInput(f"{self._file}{where}: {key}: {why}")

    def _line(self, key: str, begin: int = 0) -> int | None:
        """Return the first line behind `begin` lines that sets a key or begins its table."""
        either = re.escape(key.replace("_", "-")).replace(r"\-", "[-_]")
        spelled = re.compile(rf"\s*(?:\[\s*|params\.)?[\"']?{either}[\"']?\s*[=\].]")
        lines = enumerate(self._lines[begin:], begin + 1)
        return next((place for place, each in lines if spelled.match(each)), None)

    def _text(self, given: Mapping[str, Any], key: str) -> str:
        if key not in given:
            raise BadInput(f"{self._file}: {key} is missing")
        value = given[key]
        if not isinstance(value, str) or not value.strip():
            raise self._fault(key, "it is a text in quotes")
        return value

    def _texts(self, given: Mapping[str, Any], key: str) -> list[str]:
        value = given.get(key, [])
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, list) or not all(isinstance(each, str) for each in several):
            raise self._fault(key, "it is a text in quotes, or a list of texts")
        return several

    def _number(self, given: Mapping[str, Any], key: str) -> int | None:
        value = given.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TASKS_MAX):
            raise self._fault(key, f"it is a whole number from 1 to {TASKS_MAX:,}")
        return value

    def _command(self, given: Mapping[str, Any]) -> str | tuple[str, ...]:
        value = given.get("command")
        if isinstance(value, str) and value.strip():
            if "\n" in value.strip():
                raise self._fault("command", "it is one line")
            return value.strip()
        if isinstance(value, list) and value and all(isinstance(word, str | int) for word in value):
            return tuple(self._scalar("command", word) for word in value)
        if value is None:
            raise BadInput(f"{self._file}: command is missing")
        raise self._fault("command", "it is a line in quotes, or a list of words")

    def _values(self, name: str, value: Any) -> list[str]:
        several = value if isinstance(value, list) else [value]
        if not several:
            raise self._fault(name, "it has no values", below="params")
        texts = [self._scalar(name, each, below="params") for each in several]
        try:
            return expanded(texts, name)
        except BadInput as error:
            raise self._fault(name, str(error), below="params") from None

    def _scalar(self, key: str, value: Any, below: str | None = None) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        try:
            if isinstance(value, str | int):
                return str(value)
        except ValueError:
            raise self._fault(key, _TOO_LONG, below) from None
        raise self._fault(key, "a value is a text, a number, true or false", below)

    def _option(self, key: str, name: str, value: Any) -> list[str]:
        """Return an option as it is typed."""
        if name in COMMON_RESOURCES:
            return [f"--{name}={self._scalar(key, value)}"]
        option = _OPTIONS.get(name)
        if option is None:
            meant = closest(name, [*_OWN, *_OPTIONS, *COMMON_RESOURCES])
            hint = f"did you mean {meant}?" if meant else "an amount of a resource of your own goes into require"
            raise self._fault(key, f"there is no such key; {hint}")
        if option.takes == "flag" or (option.takes == "maybe" and isinstance(value, bool)):
            if not isinstance(value, bool):
                raise self._fault(key, "it is true or false")
            return [option.typed] if value else []
        if isinstance(value, dict) and name == "env":
            value = [f"{each}={self._scalar(key, content)}" for each, content in value.items()]
        if isinstance(value, list) and not option.repeats:
            raise self._fault(key, "it takes one value")
        several = value if isinstance(value, list) else [value]
        typed = [self._scalar(key, each) for each in several]
        try:
            option.parse(option, [each.encode() for each in typed])
        except BadInput as error:
            raise self._fault(key, str(error)) from None
        if option.takes == "maybe":
            return [f"{option.typed}={each}" for each in typed]
        return [word for each in typed for word in (option.typed, each)]


def _asked(text: str, names: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of the placeholders in a text; a name may have a colon of its own."""
    for found in _ASKED.finditer(text):
        if inside := found[1]:
            yield inside if inside in names else inside.partition(":")[0].partition("!")[0]


def sweep_lines(described: SweepFile, rows: Points | None, file: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the command of each point of a sweep in a file, and the values of each parameter."""
    is_line = isinstance(described.command, str)
    forms = [described.command] if isinstance(described.command, str) else [*described.command]
    try:
        searches = [GridSearch(form, described.parameters, rows=rows, exclude=described.exclude) for form in forms]
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None
    points = [*searches[0].values(None)]
    names = [*searches[0].parameters]
    columns = parameter_columns(names, points)
    if len(columns) < len(names):
        raise BadInput(f"{file}: a value of a sweep in a file has {VALUE_CHARS_MAX:,} characters at most")
    filled = zip(*(search.lines(None) for search in searches), strict=True)
    return [each[0] if is_line else " ".join(map(_quoted, each)) for each in filled], columns


def _quoted(word: str) -> str:
    """Return a word as a line has it; a placeholder such as {gpu} needs no quotes."""
    raw = word.encode("utf-8", "surrogateescape")
    return word if plain_words(raw) == (raw,) else shlex.quote(word)
