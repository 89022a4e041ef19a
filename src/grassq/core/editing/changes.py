"""Read the changes of an edit: named values, as a person types them or a program sends them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from grassq.core.editing.values import (
    COMMAND,
    EDITABLE,
    NOT_EDITABLE,
    REQUIRE,
    WAITS_FOR_JOBS,
    WAITS_FOR_TIME,
    options_of,
    request_of,
)
from grassq.core.job_options import JOB_OPTIONS, JobOptions, Option, Pairs
from grassq.core.model import Job
from grassq.core.names import shown
from grassq.core.options.parsers import pairs
from grassq.core.syntax import shell_lines
from grassq.core.syntax.options import misspelt_resource
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.core.waiting.conditions import Condition
from grassq.errors import BadInput

#: A longer name is no misspelt one.
NAME_MAX = 64
#: How alike a known name must be to be suggested.
_CLOSE = 0.6
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(JobOptions)}
#: Every spelling of an option: as it is typed, and as programs call it.
_SPELLINGS = {option.name: option for option in JOB_OPTIONS} | {option.field: option for option in EDITABLE.values()}

#: A value as it was sent, with words as bytes: a word, a number, a yes or no, a list of words, or amounts and variables
#: by name. None is the default.
Sent = object


class Edition(Struct, frozen=True):
    """A job as it is asked for after an edit."""

    words: tuple[bytes, ...]
    options: JobOptions
    #: The amounts stay as they are in the spec; `options` has none.
    keeps_amounts: bool = True
    #: What the job waits for is changed: of jobs, the selectors of each condition that was given; and of a time.
    after: tuple[tuple[Condition, tuple[str, ...]], ...] = ()
    is_timed: bool = False


class OptionChanges(Struct, frozen=True):
    """The changes of an edit, not applied to any job yet."""

    #: The new value of each field of the options.
    fields: dict[str, Any] = {}
    #: A line, or a program and its words; None if the command stays as it is.
    command: bytes | tuple[bytes, ...] | None = None
    #: Variables to set; None removes one.
    variables: dict[bytes, bytes | None] = {}
    #: Amounts to change, by resource; None removes one.
    amounts: dict[str, object] = {}

    def applied_to(self, job: Job, has_prefix: Callable[[str], bool]) -> Edition:
        """Return a job as it is asked for with these changes, given a test for queues with a command of their own."""
        given = dict(self.fields)
        words = job.spec.command
        if isinstance(self.command, tuple):
            words = self.command
        elif self.command is not None:
            words = self._line(self.command, job, given, has_prefix(given.get("queue", job.spec.queue)))
        options = replace(options_of(job), **given)
        if self.variables:
            options = replace(options, env=self._variables(options.env))
        if self.amounts:
            asked = request_of(job.spec) | self.amounts
            options = replace(options, request={name: each for name, each in asked.items() if each is not None})
        after = tuple([(each, given[name]) for name, each in WAITS_FOR_JOBS.items() if name in given])
        is_timed = any(name in given for name in WAITS_FOR_TIME)
        return Edition(words, options, not self.amounts and "request" not in self.fields, after, is_timed)

    def _line(self, line: bytes, job: Job, given: dict[str, Any], are_arguments: bool) -> tuple[bytes, ...]:
        """Return the words of a command that was written as one line, as `enqueue --stdin` reads it."""
        shell_lines.check(line)
        shell = given.get("shell", job.spec.shell)
        plain_words = shell_lines.plain_words(line) if shell is None else None
        if plain_words and (are_arguments or shell_lines.may_be_program(plain_words[0])):
            return plain_words
        if shell is None:
            given["shell"] = b""
        return (line,)

    def _variables(self, before: Pairs) -> Pairs:
        kept = tuple([pair for pair in before if pair[0] not in self.variables])
        return kept + tuple([(name, value) for name, value in self.variables.items() if value is not None])


def read(given: Mapping[str, Sent], resources: Collection[str]) -> OptionChanges:
    """Read changes by name; `resources` are those that some machine has."""
    named: dict[str, Any] = {}
    command: bytes | tuple[bytes, ...] | None = None
    variables: dict[bytes, bytes | None] = {}
    amounts: dict[str, object] = {}
    for typed, value in given.items():
        name = typed.replace("_", "-").lower()
        option = _SPELLINGS.get(name) or _SPELLINGS.get(typed)
        if name == COMMAND:
            command = _command(value)
        elif name in NOT_EDITABLE:
            raise BadInput(f"{name} cannot be edited: {NOT_EDITABLE[name]}")
        elif option is None:
            amounts[_resource(typed.lower(), resources)] = _amount(typed, value)
        elif option.field in named:
            raise BadInput(f"{typed} is given twice")
        elif option.field == "env" and isinstance(value, Mapping):
            variables = {_word(each, "a variable"): _variable(each, content) for each, content in value.items()}
        else:
            named[option.field] = _value(option, value)
    if amounts and "request" in named:
        raise BadInput(f"give either {REQUIRE} or {next(iter(amounts))}, not both")
    return OptionChanges(named, command, variables, amounts)


def _value(option: Option, value: Sent) -> Any:
    """Return the value of a field; raise BadInput with the message of a submission."""
    if option.field == "request" and isinstance(value, Mapping):
        return {name: amount for name, each in value.items() if (amount := _amount(name, each)) is not None}
    if option.field == "tags" and isinstance(value, Mapping):
        value = [_word(key, option.name) + b"=" + _word(each, option.name) for key, each in value.items()]
    if option.field == "at" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)  # in seconds since the epoch; a submission has them in this form, too
    if value is None or value is False or value in (b"", []):
        return _DEFAULTS[option.field]
    if value is True:
        if option.takes == "value":
            raise BadInput(f"{option.name} needs a value, not true")
        return option.parse(option, [b""])
    if option.takes == "flag":
        if value in (b"true", b"false"):
            return value == b"true"
        raise BadInput(f"{option.name} is true or false, not {_shown(value)}")
    if isinstance(value, list):
        if not option.repeats:
            raise BadInput(f"{option.name} takes one value, not a list")
        return option.parse(option, [_word(each, option.name) for each in value])
    return option.parse(option, [_word(value, option.name)])


def _command(value: Sent) -> bytes | tuple[bytes, ...]:
    if isinstance(value, list):
        return tuple([_word(each, COMMAND) for each in value])
    if not isinstance(value, bytes):
        raise BadInput(f"{COMMAND} is a list of words or a line, not {_shown(value)}")
    if not value.strip():
        raise BadInput("there is nothing to run: the command is empty")
    return value


def _word(value: Sent, what: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value).encode()
    raise BadInput(f"{what} needs a word or a number, not {_shown(value)}")


def _variable(name: object, value: Sent) -> bytes | None:
    word = _word(name, "a variable")
    if value is None:
        return None
    # The check of a variable that was typed.
    [(_, content)] = pairs(EDITABLE["env"], [word + b"=" + _word(value, "a variable")])
    if b"=" in word:
        raise BadInput(f"the name of a variable has no '=': {shown(word)}")
    return content


def _amount(name: str, value: Sent) -> object:
    if value is None or value == b"":
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(f"{name} needs an amount such as 1 or 0.5, not {_shown(value)}")
    return value


def _resource(name: str, resources: Collection[str]) -> str:
    """Return the resource that a name means; raise BadInput that says what was probably meant."""
    if name in COMMON_RESOURCES or name in resources:
        return name
    if len(name) > NAME_MAX:
        raise BadInput(f"unknown option {shown(name)}")
    known = [COMMAND, *_SPELLINGS, *COMMON_RESOURCES, *resources]
    meant = misspelt_resource(name, resources)
    near = [meant] if meant else difflib.get_close_matches(name, sorted({*known}), n=1, cutoff=_CLOSE)
    hint = f"; did you mean {near[0]}?" if near else f" (for a resource called {name}: {REQUIRE})" if name else ""
    raise BadInput(f"unknown option {shown(name)}{hint}")


def _shown(value: Sent) -> str:
    words: Sequence[type] = (bytes, str)
    if isinstance(value, tuple(words)):
        return shown(value)  # type: ignore[arg-type]
    kinds = {list: "a list", dict: "a table", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value)) or shown(str(value))
