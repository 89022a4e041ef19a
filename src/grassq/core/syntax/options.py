"""The options `enqueue`, `run` and `create-queue` know, and how one of them is read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from grassq.core.job_options import COMMAND_OPTIONS, JOB_OPTIONS
from grassq.core.names import shown
from grassq.core.options import parsers
from grassq.core.options.parsers import Option, as_text
from grassq.core.syntax.resource_names import COMMON_RESOURCES, OTHER_NAMES, SHORT_NAMES
from grassq.errors import BadInput

_RESOURCE = re.compile(r"[a-z][a-z0-9_]{0,31}")
_AMOUNT_STARTS = tuple(bytes([byte]) for byte in b"0123456789.[{")
_CLOSE = 0.75
_DIGITS = re.compile(r"[0-9]+")

#: Options of other tools: ours, or what to do instead.
OTHER_OPTIONS = {
    **dict.fromkeys(("-n", "-J", "--job-name", "--title"), "--name"),
    **dict.fromkeys(("--partition", "--group"), "--queue"),
    **dict.fromkeys(("-C", "-D", "--chdir", "--workdir", "--dir", "--directory"), "--cwd"),
    **dict.fromkeys(("--prio", "--nice"), "--priority"),
    **dict.fromkeys(("--retry", "--max-retries"), "--retries"),
    **dict.fromkeys(("-t", "--time", "--timeout", "--walltime"), "--time-limit"),
    "--signal": "--warn",
    **dict.fromkeys(("-d", "--afterok", "--depend", "--depends"), "--after"),
    "--dependency": "afterok:12 is --after 12, afterany:12 is --after-any 12, and afternotok:12 is --after-fail 12",
    "--afterany": "--after-any",
    "--afternotok": "--after-fail",
    "--begin": "--at",
    "--delay": "--in",
}

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
    Option(parsers.text, name="capacity", field="capacity"),
    Option(parsers.text, name="slots", field="slots"),
    Option(parsers.text, name="order", field="order"),
    Option(parsers.pairs, name="env", field="env", repeats=True, short="e"),
    Option(parsers.raw, name="cwd", field="cwd"),
    Option(parsers.wrapper, name="wrap", field="wrap"),
    Option(parsers.some_seconds, name="time-limit", field="time_limit_s", least=1),
    Option(parsers.some_seconds, name="max-time-limit", field="max_time_limit_s", least=1),
    Option(parsers.WORKER_NAME, name="worker", field="worker"),
    Option(parsers.flag, name="at-broker", field="at_broker", takes="flag"),
    Option(parsers.label_names, name="label", field="labels", repeats=True),
    Option(parsers.flag, name="unsecure", field="unsecure", takes="flag"),
    Option(_variables, name="allow-env", field="allow_env", repeats=True),
    *(option for option in COMMAND_OPTIONS if option.field in ("broker", "json", "quiet")),
)
CREATE_QUEUE = _table(QUEUE_OPTIONS)


def value_options(table: Table) -> frozenset[str]:
    """Return the options of a table whose value is the next word."""
    named = {word.decode() for word, option in table.items() if option.takes == "value"}
    return frozenset(named | {f"--{name}" for name in COMMON_RESOURCES})


#: What no resource may be called: an option word would hide it, and its GRASS_<NAME> variable would hide one of ours.
RESERVED = frozenset(
    {option.name.replace("-", "_") for option in (*ENQUEUE.values(), *CREATE_QUEUE.values())}
    # Settings: a daemon that a job starts would read its GRASS_<NAME>.
    | {
        "store",
        "sent_files_mib",
        "capacity",
        "default_request",
        "passes",
        "patience_s",
        "lease_s",
        "log_cache_mib",
        "hosts",
        "ssh",
        "probe_s",
        "token_notify",
    }
    | {"token_jobs", "token_mib", "token_priority_max", "cert_pass"}
    | {"log_max", "disk_floor", "keep", "keep_jobs", "keep_disk", "web_port"}
    # What an attempt in a slot holds beside the slot's devices.
    | {"slot"}
    | {"help", "version", "job_id", "job_name", "attempt", "run_dir", "result_file", "checkpoint_dir", "home"}
    | {"array_index", "array_count", "array_min", "array_max"}
    | {"setup_dir", "wrapper", "project", "web_port"}
)


def resource_name_fault(text: str) -> str | None:
    """Return why no resource may be called that, or None if one may (names fold to lower case)."""
    folded = text.lower()
    if not text.isascii() or _RESOURCE.fullmatch(folded) is None:
        return f"a resource name begins with a letter, then letters, digits or _, at most 32: not {shown(text)}"
    if folded in RESERVED or folded.startswith("grass"):
        return f"{shown(text)} is reserved: an option or a variable of Grass has this name; choose another"
    return None


def is_resource_name(text: str) -> bool:
    """Say whether a resource may be called that."""
    return resource_name_fault(text) is None


def is_option(word: bytes) -> bool:
    """Say whether a word is spelled like an option; `-` and `--` are not."""
    return word.startswith(b"-") and word not in (b"-", b"--")


def resource_of(head: bytes) -> str | None:
    """Return the resource that an option word such as `--gpu` names, if it can be one."""
    text = head[2:].decode("ascii", "replace")
    return text.lower() if head.startswith(b"--") and is_resource_name(text) else None


def width(word: bytes, table: Table) -> int:
    """Return how many words an option takes, itself included, going by its spelling alone."""
    option = table.get(word)
    if option is not None:
        return 2 if option.takes == "value" else 1
    return 2 if resource_of(word) in COMMON_RESOURCES else 1


def closest(typed: str, known: Iterable[str]) -> str | None:
    """Return the known word a mistyped one was probably meant to be."""
    return next(iter(difflib.get_close_matches(typed, sorted(known), n=1, cutoff=_CLOSE)), None)


def differ_in_numbers(one: str, other: str) -> bool:
    """Tell whether two names differ in their numbers alone, like job1 and job2: neither is the other misspelt."""
    return _DIGITS.sub("#", one) == _DIGITS.sub("#", other)


def misspelt_resource(name: str, known: Collection[str]) -> str | None:
    """Return the resource that an unknown name probably means, such as gpu for gpus."""
    if name in COMMON_RESOURCES or name in known:
        return None
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    twin = next((each for each in sorted(known) if name in (f"{each}s", each.removesuffix("s"))), None)
    return twin or closest(name, COMMON_RESOURCES)


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
    meant = meant_by(head, table, names)
    return BadInput(f"unknown option {shown(word)}" + (f"; {meant}" if meant else ""))


def meant_by(head: bytes, table: Table, resources: Collection[str]) -> str | None:
    """Return what to write instead of an unknown option word; None if that cannot be guessed."""
    typed, resource = head.decode("utf-8", "replace"), resource_of(head) or ""
    meant = misspelt_resource(resource, resources) if resource else SHORT_NAMES.get(typed)
    answer = OTHER_OPTIONS.get(typed, "") if table is ENQUEUE else ""
    if answer and not answer.startswith("--"):
        return answer
    known = [*(key.decode() for key in table), *(f"--{name}" for name in COMMON_RESOURCES | set(resources))]
    near = answer or (f"--{meant}" if meant else closest(typed, known))
    return f"did you mean {near}?" if near else None


class GivenOptions:
    """The options of a table and the amounts read so far; it refuses a second value for what can have only one."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._options: dict[str, Option] = {}
        #: The values of each option, and the amount of each resource, as typed.
        self.values: dict[str, list[bytes]] = {}
        self.amounts: dict[str, str] = {}

    def take(self, words: Sequence[bytes], at: int, is_ours: Callable[[str], bool] = lambda _resource: True) -> int:
        """Take in options of ours; return the place of the first word that is none."""
        while at < len(words) and is_option(words[at]):
            head, equals, tail = words[at].partition(b"=")
            behind = words[at + 1] if at + 1 < len(words) else b""
            option, resource = self._table.get(head), resource_of(head)
            if option is not None:
                taken = self._take_option(option, head, tail if equals else None, behind)
            elif resource is not None and is_ours(resource):
                taken = self._take_amount(resource, head, tail if equals else None, behind)
            else:
                return at
            if not taken:
                return at
            at += taken
        return at

    def _take_option(self, option: Option, head: bytes, value: bytes | None, behind: bytes) -> int:
        """Take in an option with its value, in the same word or behind it; return how many words that were, or 0."""
        if value is not None and (option.takes == "flag" or not head.startswith(b"--")):
            return 0
        if value == b"":
            raise BadInput(f"{head.decode()} needs a value after the '='")
        is_behind = value is None and option.takes == "value"
        if is_behind and behind in (b"", b"--"):
            raise BadInput(f"{head.decode()} needs a value")
        self._options[option.name] = option
        values = self.values.setdefault(option.name, [])
        if values and option.takes != "flag" and not option.repeats:
            raise BadInput(f"{head.decode()} is given twice")
        values.append(behind if is_behind else value or b"")
        return 2 if is_behind else 1

    def _take_amount(self, resource: str, head: bytes, amount: bytes | None, behind: bytes) -> int:
        typed = head.decode()
        if amount == b"":
            raise BadInput(f"{typed} needs an amount after the '=', such as {typed}=1")
        if amount is None and resource not in COMMON_RESOURCES:
            return 0
        if amount is None and not behind.startswith(_AMOUNT_STARTS):
            instead = f", not {shown(behind)}" if behind else ""
            raise BadInput(f"{typed} needs an amount{instead}, such as {typed}=1")
        if resource in self.amounts:
            raise BadInput(f"{typed} is given twice")
        self.amounts[resource] = as_text(behind if amount is None else amount, typed)
        return 2 if amount is None else 1

    def has(self, name: str) -> bool:
        """Say whether an option was given."""
        return name in self.values

    def value(self, name: str) -> Any:
        """Return the value of an option, or None if it was not given."""
        option = self._options.get(name)
        return None if option is None else option.parse(option, self.values[name])

    def fields(self, options: Iterable[Option]) -> dict[str, Any]:
        """Return the values of those of the options that were given, by the field each sets."""
        found: dict[str, Option] = {}
        for option in options:
            if option.name in self.values and (other := found.setdefault(option.field, option)) is not option:
                hint = f"; {option.example}" if option.example else ""
                raise BadInput(f"give either {other.typed} or {option.typed}, not both{hint}")
        return {field: self.value(option.name) for field, option in found.items()}
