"""sweep: enqueues a command once for every combination of parameter values."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from itertools import islice

from grassq.cli import render
from grassq.cli.enqueue import enqueue
from grassq.cli.help import text_of
from grassq.cli.typed import take_option
from grassq.core.sweeps.grid import GridSearch
from grassq.core.sweeps.parameters import parameter_columns
from grassq.core.sweeps.ranges import expanded
from grassq.core.sweeps.sweep import DEFINITION_CHARS_MAX
from grassq.core.syntax import options, sweep
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.errors import BadInput
from grassq.inputs.points import read_points_file
from grassq.inputs.script_options import line_words
from grassq.inputs.sweep_files import line_text, read_sweep_input
from grassq.net.encoding import BYTES_MAX, new_key

DRY_RUN = "--dry-run"
#: Lines of a dry run per write.
PRINTED_AT_ONCE = 1000
#: The one-letter options; like `--`, each of them ends the values of a parameter.
_SHORTS = ("-h", *(word.decode() for word in options.ENQUEUE if not word.startswith(b"--")))
_NOT_HERE = {
    "--stdin": "--stdin cannot go with a sweep, whose commands come from TEMPLATE",
    "--sync": "--sync follows one job, but a sweep has many; `grass wait NAME` waits for all of them",
    "--array": "--array cannot go with a sweep; a parameter has indexes too: -p index 0..99",
    "--each": "--each cannot go with a sweep; --points FILE takes points from a file",
}
#: Options of a sweep itself, and how many words each takes.
_OWN = {DRY_RUN: 1, "--points": 2, "--exclude": 2, "--file": 2, "--prune": 1}
#: What may be typed beside a file, which has everything else.
_WITH_FILE = ("-q", "--quiet", "--json", "--broker")


class _Given:
    """The options of the sweep itself, and the other words, which are for `enqueue`."""

    def __init__(self, words: list[str]) -> None:
        self.values: dict[str, list[str]] = {}
        self.rest: list[str] = []
        at = 0
        while at < len(words):
            head, equals, value = words[at].partition("=")
            width = 1 if equals else _width(words[at])
            if head not in _OWN:
                self.rest += words[at : at + width]
            elif _OWN[head] == 1:
                if equals:
                    raise BadInput(f"{head} takes no value")
                self.values.setdefault(head, []).append("")
            else:
                value = value if equals else "".join(words[at + 1 : at + 2])
                if not value:
                    raise BadInput(f"{head} needs a value")
                self.values.setdefault(head, []).append(value)
            at += width

    def has(self, option: str) -> bool:
        """Tell whether an option was given."""
        return option in self.values

    def one(self, option: str) -> str | None:
        """Return the value of an option that is given once at most."""
        values = self.values.get(option, [])
        if len(values) > 1:
            raise BadInput(f"{option} is given twice")
        return values[0] if values else None


def words(name: str, argv: list[str]) -> int:
    """Enqueue all lines of a parameter search, or none of them."""
    typed = sweep.read(argv, _width, _SHORTS)
    if typed.help:
        return render.text(text_of(name))
    given = _Given(typed.rest)
    if (file := given.one("--file")) is not None:
        return _apply(name, file, typed, given)
    if given.has("--prune"):
        raise BadInput("--prune goes with --file: it ends what is no longer in the file")
    if not typed.parameters and len(typed.commands) == 1 and typed.commands[0].endswith(".toml"):
        raise BadInput(f"{typed.commands[0]} is a sweep in a file: grass sweep --file {typed.commands[0]}")
    _join_words(typed)
    search = _search(typed, given)
    _check_values(typed, search)
    seed = typed.order(lambda: int(new_key(), 16))
    lines = search.lines(seed)
    if given.has(DRY_RUN):
        render.notes(search.notes)
        return _print(lines, search.count)
    broker, rest = take_option("--broker", given.rest)
    text = line_text(search.count, lines, BYTES_MAX)
    render.notes(search.notes)
    parameters = _parameters(search, seed, BYTES_MAX - len(text))
    more = '"sweep":' + json.dumps({"definition": shlex.join(argv)[:DEFINITION_CHARS_MAX]})
    words = ["--stdin", *line_words(typed.commands[0], rest), *rest]
    return enqueue(words, broker, name, text, parameters=parameters, more=more)


def _join_words(typed: sweep.Typed) -> None:
    """Make one command of the words behind `--`; in each of them a value is put within quotes."""
    if len(typed.behind) < 2:
        return
    if before := typed.commands[: -len(typed.behind)]:
        word = sweep.shown(before[0])
        raise BadInput(f"behind -- is the command, so {word} has no place before it; a queue is --queue {before[0]}")
    typed.commands = [shlex.join(typed.behind)]


def _check_values(typed: sweep.Typed, search: sweep.Search) -> None:
    """Refuse a value that would end the quotes of its word."""
    if len(typed.behind) < 2:
        return
    for name, values in search.parameters.items():
        if quoted := next((value for value in values if "'" in value), None):
            value = sweep.shown(quoted)
            raise BadInput(f"the value {value} of {name} has a quote; put the whole command in quotes, as one word")


def _search(typed: sweep.Typed, given: _Given) -> sweep.Search:
    typed.parameters = {name: expanded(values, name) for name, values in typed.parameters.items()}
    file, exclude = given.one("--points"), given.values.get("--exclude", [])
    if file is None and not exclude:
        return typed.search()
    rows = None if file is None else read_points_file(file)
    # What is wrong with the words is said first; the columns of the file have any values here.
    columns = {} if rows is None else {name: ["x", "y"] for name in rows.names}
    both, typed.parameters = typed.parameters, columns | typed.parameters
    typed.search()
    search = GridSearch(typed.commands[0], both, typed.samples, rows=rows, exclude=exclude)
    search.notes = typed.notes + search.notes
    return search


def _apply(name: str, file: str, typed: sweep.Typed, given: _Given) -> int:
    """Apply a sweep in a file: run what is new, changed or failed."""
    if typed.commands or typed.parameters or typed.samples is not None or typed.seed is not None:
        raise BadInput(f"with --file, the command and its parameters are in {file}; leave them out here")
    broker, rest = take_option("--broker", given.rest)
    if strange := next((word for word in rest if word not in _WITH_FILE), None):
        raise BadInput(f"with --file, the options of the jobs are in {file}; leave out {sweep.shown(strange)}")
    for own in ("--points", "--exclude"):
        if given.has(own):
            raise BadInput(f"with --file, {own} is a key of the file: {own[2:]}")
    read = read_sweep_input(file)
    text = line_text(len(read.lines), iter(read.lines), BYTES_MAX)
    asked = {"apply": True, "prune": given.has("--prune"), "dry_run": given.has(DRY_RUN)}
    more = '"sweep":' + json.dumps({**asked, "definition": read.definition})
    sent = ["--stdin", *rest, *read.words]
    return enqueue(sent, broker, name, text, parameters=json.dumps(read.parameters), more=more)


def _width(word: str) -> int:
    """Return how many words an option of a sweep or of `enqueue` takes; the daemon reads the value of the latter."""
    if word in _NOT_HERE:
        raise BadInput(_NOT_HERE[word])
    if word in _OWN:
        return _OWN[word]
    if "=" in word:
        return 1
    raw = os.fsencode(word)
    if raw not in options.ENQUEUE and options.resource_of(raw) not in COMMON_RESOURCES:
        raise options.unknown(raw, options.ENQUEUE)
    return options.width(raw, options.ENQUEUE)


def _print(lines: Iterator[str], count: int) -> int:
    while some := list(islice(lines, PRINTED_AT_ONCE)):
        render.write(os.fsencode("\n".join([*some, ""])))
    render.notes([f"{count:,} {'job' if count == 1 else 'jobs'}; nothing was enqueued"])
    return 0


def _parameters(search: sweep.Search, seed: int | None, bytes_max: int) -> str:
    """Return the values of each parameter line by line, in JSON; nothing if they take too many bytes."""
    columns = parameter_columns([*search.parameters], [*search.values(seed)])
    text = json.dumps(columns) if columns else ""
    return text if len(text) <= bytes_max else ""
