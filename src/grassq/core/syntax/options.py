"""The options `enqueue`, `run` and `create-queue` know, and how one of them is read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from grassq.core import job_options as values
from grassq.core.job_options import COMMAND_OPTIONS, JOB_OPTIONS, Option, as_text
from grassq.core.names import shown
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.errors import BadInput

_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,31}")
_AMOUNT_STARTS = tuple(bytes([byte]) for byte in b"0123456789.[{")
_CLOSE = 0.75

Table = Mapping[bytes, Option]


def _table(options: Iterable[Option]) -> Table:
    found = {b"--" + option.name.encode(): option for option in options}
    return found | {b"-" + option.short.encode(): option for option in found.values() if option.short}


def _variables(_option: Option, names: Sequence[bytes]) -> tuple[bytes, ...]:
    for name in names:
        if not name or b"=" in name:
            raise BadInput(f"--allow-env needs the name of a variable, not {shown(name)}")
    return tuple(sorted({*names}))


ENQUEUE = _table((*JOB_OPTIONS, *COMMAND_OPTIONS))

QUEUE_OPTIONS = (
    Option(values.text, name="capacity", field="capacity"),
    Option(values.text, name="slots", field="slots"),
    Option(values.text, name="order", field="order"),
    Option(values.pairs, name="env", field="env", repeats=True, short="e"),
    Option(values.raw, name="cwd", field="cwd"),
    Option(values.WORKER_NAME, name="worker", field="worker"),
    Option(values.flag, name="at-broker", field="at_broker", takes="flag"),
    Option(values.label_names, name="label", field="labels", repeats=True),
    Option(values.flag, name="unsecure", field="unsecure", takes="flag"),
    Option(_variables, name="allow-env", field="allow_env", repeats=True),
    *(option for option in COMMAND_OPTIONS if option.field in ("broker", "json", "quiet")),
)
CREATE_QUEUE = _table(QUEUE_OPTIONS)


def _value_options(table: Table) -> frozenset[str]:
    """Return the options of a table whose value is the next word."""
    named = {word.decode() for word, option in table.items() if option.takes == "value"}
    return frozenset(named | {f"--{name}" for name in COMMON_RESOURCES})


VALUE_OPTIONS = _value_options(ENQUEUE)
QUEUE_VALUE_OPTIONS = _value_options(CREATE_QUEUE)

#: What no resource may be called: an option word would hide it, and its GRASS_<NAME> variable would hide one of ours.
RESERVED = frozenset(
    {option.name.replace("-", "_") for option in (*ENQUEUE.values(), *CREATE_QUEUE.values())}
    # Settings: a daemon that a job starts would read its GRASS_<NAME>.
    | {"store", "capacity", "default_request", "passes", "patience_s", "lease_s", "log_cache_mib", "hosts"}
    | {"cert_pass"}
    # What an attempt in a slot holds beside the slot's devices.
    | {"slot"}
    | {"help", "version", "job_id", "job_name", "attempt", "run_dir", "result_file", "checkpoint_dir", "home"}
)


class MatchedOption(msgspec.Struct, frozen=True):
    """An option as it was read: ours, or a resource by name; its value, and how many words it took."""

    what: Option | str
    typed: bytes
    value: bytes
    width: int


def is_resource_name(text: str) -> bool:
    """Say whether a resource may be called that (names fold to lower case)."""
    folded = text.lower()
    spelled = text.isascii() and _RESOURCE.fullmatch(folded) is not None
    return spelled and folded not in RESERVED and not folded.startswith("grass")


def is_option(word: bytes) -> bool:
    """Say whether a word is spelled like an option; `-` and `--` are not."""
    return word.startswith(b"-") and word not in (b"-", b"--")


def resource_of(head: bytes) -> str | None:
    """Return the resource that an option word such as `--gpu` names, if it can be one."""
    text = head[2:].decode("ascii", "replace")
    return text.lower() if head.startswith(b"--") and is_resource_name(text) else None


def read(words: Sequence[bytes], at: int, table: Table, is_ours: Callable[[str], bool]) -> MatchedOption | None:
    """Read the option at a place among the words; None if it is not one of ours."""
    head, equals, tail = words[at].partition(b"=")
    option = table.get(head)
    if option is None:
        return _read_amount(words, at, is_ours)
    if option.takes == "flag":
        return None if equals else MatchedOption(what=option, typed=head, value=b"", width=1)
    if equals:
        if not head.startswith(b"--"):
            return None
        if not tail:
            raise BadInput(f"{head.decode()} needs a value after the '='")
        return MatchedOption(what=option, typed=head, value=tail, width=1)
    if option.takes == "maybe":
        return MatchedOption(what=option, typed=head, value=b"", width=1)
    value = words[at + 1] if at + 1 < len(words) else b""
    if value in (b"", b"--"):
        raise BadInput(f"{head.decode()} needs a value")
    return MatchedOption(what=option, typed=head, value=value, width=2)


def _read_amount(words: Sequence[bytes], at: int, is_ours: Callable[[str], bool]) -> MatchedOption | None:
    head, equals, amount = words[at].partition(b"=")
    name = resource_of(head)
    if name is None or not is_ours(name):
        return None
    if equals:
        if not amount:
            raise BadInput(f"{head.decode()} needs an amount after the '=', such as {head.decode()}=1")
        return MatchedOption(what=name, typed=head, value=amount, width=1)
    if name not in COMMON_RESOURCES:
        return None
    amount = words[at + 1] if at + 1 < len(words) else b""
    if not amount.startswith(_AMOUNT_STARTS):
        instead = f", not {shown(amount)}" if amount else ""
        raise BadInput(f"{head.decode()} needs an amount{instead}, such as {head.decode()}=1")
    return MatchedOption(what=name, typed=head, value=amount, width=2)


def width(word: bytes, table: Table) -> int:
    """Return how many words an option takes, itself included, going by its spelling alone."""
    option = table.get(word)
    if option is not None:
        return 2 if option.takes == "value" else 1
    return 2 if resource_of(word) in COMMON_RESOURCES else 1


def closest(typed: str, known: Iterable[str]) -> str | None:
    """Return the known word a mistyped one was probably meant to be."""
    return next(iter(difflib.get_close_matches(typed, sorted(known), n=1, cutoff=_CLOSE)), None)


def unknown(word: bytes, table: Table, resources: Iterable[str] = ()) -> BadInput:
    """Say that an option is not known and, where it can be guessed, what was meant."""
    head, equals, _ = word.partition(b"=")
    typed = head.decode("utf-8", "replace")
    if head in table and equals:
        hint = f"{typed} takes no value" if table[head].takes == "flag" else f"write {typed} and its value as two words"
        return BadInput(f"unknown option {shown(word)}: {hint}")
    names = COMMON_RESOURCES | set(resources)
    if resource_of(head) in names and not equals:
        return BadInput(f"unknown option {shown(word)}: write the amount in the same word, {typed}=1")
    meant = closest(typed, [*(key.decode() for key in table), *(f"--{name}" for name in names)])
    return BadInput(f"unknown option {shown(word)}" + (f"; did you mean {meant}?" if meant else ""))


class GivenOptions:
    """The options read so far; it refuses a second value for what can have only one."""

    def __init__(self) -> None:
        self._options: dict[str, Option] = {}
        self._values: dict[str, list[bytes]] = {}
        self._amounts: dict[str, str] = {}

    def add(self, found: MatchedOption) -> None:
        """Take one option in."""
        if isinstance(found.what, str):
            if found.what in self._amounts:
                raise BadInput(f"{found.typed.decode()} is given twice")
            self._amounts[found.what] = as_text(found.value, found.typed.decode())
            return
        self._options[found.what.name] = found.what
        values = self._values.setdefault(found.what.name, [])
        if values and found.what.takes != "flag" and not found.what.repeats:
            raise BadInput(f"{found.typed.decode()} is given twice")
        values.append(found.value)

    def has(self, name: str) -> bool:
        """Say whether an option was given."""
        return name in self._values

    @property
    def is_empty(self) -> bool:
        """Say whether no option was given, resources aside."""
        return not self._values

    @property
    def amounts(self) -> dict[str, str]:
        """Return resource names with their amounts as typed."""
        return self._amounts

    def value(self, name: str) -> Any:
        """Return the value of an option, or None if it was not given."""
        option = self._options.get(name)
        return None if option is None else option.parse(option, self._values[name])

    def fields(self, options: Iterable[Option]) -> dict[str, Any]:
        """Return the values of those of the options that were given, by the field each sets."""
        found: dict[str, Option] = {}
        for option in options:
            if option.name in self._values and (other := found.setdefault(option.field, option)) is not option:
                hint = f"; {option.example}" if option.example else ""
                raise BadInput(f"give either {other.typed} or {option.typed}, not both{hint}")
        return {field: self.value(option.name) for field, option in found.items()}
