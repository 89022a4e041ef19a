"""Makes the table of words for the shell from the parsers and help texts of all commands. Heavy: it loads them all.

Each line has four fields with a tab between them: a command, what stands there, its value, and a description.

    kill            end jobs                        a command
    kill    @1+     selector:unfinished             plain words from the first on: jobs that have not ended
    kill    --grace =  time between ...             an option with a value; `=file`: a value that is a file
    kill    --json     print the answer ...         an option without a value; `?file`: with `=VALUE` or without
    ls      >       show                            another name of a command
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

from grassq.cli import help as texts
from grassq.cli.listing import columns
from grassq.cli.main import parsers
from grassq.cli.synonyms import UNDERSTOOD
from grassq.cli.top import job_rows
from grassq.core.syntax.commands import BY_NAME

DESCRIPTION_CHARS = 72

_HELP = "print the help"
UNFINISHED = "unfinished"
#: The jobs that a command is about, where not all: `grammar.GROUPS` has the states of each group.
_GROUPS = {
    **dict.fromkeys(("kill", "wait", "follow", "why", "eta"), UNFINISHED),
    **dict.fromkeys(("priority", "edit", "move"), "movable"),
    "hold": "holdable",
    "release": "held",
    "suspend": "running",
    "resume": "running",
}
_BY_OPTION = {"--queue": "queue", "--worker": "worker", "--label": "label", "--broker": "broker", "--connect": "broker"}
_BY_OPTION |= {"--project": "project", "--tag": "tag"}
#: What a value is called in help texts, and what it is.
_BY_METAVAR = {
    "SELECTOR": "selector",
    "JOB": "selector",
    "JOBS": "selector",
    "FILTER": "selector",
    "QUEUE": "queue",
    "QUEUE|SELECTOR": "selector",
    "WORKER": "worker",
    "MACHINE": "machine",
    "LABEL": "label",
    "HOST": "broker",
    "FILE": "file",
    "PATH": "file",
    "PATTERN": "file",
    "DIR": "folder",
    "AMOUNT": "amount",
}
#: The plain words of commands, where their names in the help do not tell.
_PLAIN_WORDS = {
    ("delete-queue", "NAME"): "queue",
    ("drain", "NAME"): "worker",
    ("remove", "NAME"): "worker",
    ("device", "ID"): "device",
}
#: The plain words of commands that read their words as typed: `command` is the job's own command line.
_TYPED_WORDS = {
    "enqueue": ("queue", "command"),
    "run": ("queue", "command"),
    "what-if": ("queue", "command"),
    "create-queue": ("name", "command"),
    "sweep": ("",),
}
#: The columns that can be named, with commas between them.
_COLUMNS = {"show": tuple(columns.COLUMNS), "top": tuple(job_rows.COLUMNS)}
#: A help line that lists the words there are: day (default), queue or name.
_LISTED = re.compile(r"[a-z]+(?: \(default\))?(?:, [a-z]+(?: \(default\))?)* or [a-z]+")
_WORD = re.compile(r"[a-z][a-z_-]*")
_SPELLED = re.compile(r"(-{1,2}[A-Za-z][\w-]*)(\[)?(?:[= ]?([^\s,\]]+))?")
#: The column after which an option's explanation begins, counted from the option.
_COLUMN = texts.COLUMN - 2


class TableRow(NamedTuple):
    """One line of the table."""

    command: str
    what: str
    value: str = ""
    description: str = ""


def table() -> str:
    """Return the whole table."""
    rows = [row for name, parser in parsers() for row in _command(name, parser)]
    rows += [TableRow(name, ">", command.name) for name, command in BY_NAME.items() if name != command.name]
    rows.append(TableRow("help", "", "", "explain a command"))
    rows.append(TableRow("help", "@1", "command-name"))
    rows += [TableRow(word, ">", meant[0]) for word, meant in sorted(UNDERSTOOD.items()) if meant[0] in BY_NAME]
    return "".join("\t".join(map(_field, row)) + "\n" for row in rows)


def _field(text: str) -> str:
    return " ".join(text.split())


def _command(name: str, parser: argparse.ArgumentParser | str) -> Iterator[TableRow]:
    if name != BY_NAME[name].name:
        return
    yield TableRow(name, "", "", BY_NAME[name].summary)
    yield from _typed(name, parser) if isinstance(parser, str) else _parsed(name, parser)


def _parsed(name: str, parser: argparse.ArgumentParser) -> Iterator[TableRow]:
    place = 0
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        for option in action.option_strings:
            takes = "?" if action.nargs == "?" else "="
            value = "" if action.nargs == 0 else takes + _kind(name, option, action)
            help_ = _HELP if option in ("-h", "--help") else action.help or ""
            yield TableRow(name, option, value, _short(help_))
        if not action.option_strings:
            place += 1
            repeats = "+" if action.nargs in ("*", "+", argparse.REMAINDER) else ""
            yield TableRow(name, f"@{place}{repeats}", _kind(name, "", action))


def _kind(command: str, option: str, action: argparse.Action) -> str:
    if action.choices:
        return "words " + " ".join(map(str, action.choices))
    if listed := _LISTED.fullmatch(action.help or ""):
        return "words " + " ".join(re.split(r", | or ", listed[0].replace(" (default)", "")))
    if option in ("-o", "--columns", "--sort") and command in _COLUMNS:
        return "list " + " ".join(_COLUMNS[command]).lower()
    return _value(command, option, str(action.metavar or action.dest.upper()))


def _value(command: str, option: str, metavar: str) -> str:
    """Return what a value is, from the command, the option and the value's name in the help."""
    if option in _BY_OPTION:
        return _BY_OPTION[option]
    if not option and (command, metavar) in _PLAIN_WORDS:
        return _PLAIN_WORDS[command, metavar]
    if all(_WORD.fullmatch(word) for word in metavar.split("|")):
        return "words " + " ".join(metavar.split("|"))
    known = next((word for word in re.split(r"[^A-Z]+", metavar) if word in _BY_METAVAR), None)
    if known is None:
        return ""
    kind = _BY_METAVAR[known]
    return f"{kind}:{_GROUPS[command]}" if kind == "selector" and command in _GROUPS and not option else kind


def _short(text: str) -> str:
    """Return the first part of an explanation, cut at a word."""
    text = " ".join(text.replace("%%", "%").split())
    if len(text) <= DESCRIPTION_CHARS:
        return text
    return text[: DESCRIPTION_CHARS - 3].rsplit(" ", 1)[0].rstrip(",;:(") + "..."


def _typed(name: str, text: str) -> Iterator[TableRow]:
    """Yield the options in a help text, and the plain words of the command."""
    seen: set[str] = set()
    for options, explained in _explained(text):
        for option, maybe, metavar in options:
            if option in seen:
                continue
            seen.add(option)
            value = ("?" if maybe else "=") + _value(name, option, metavar) if metavar else ""
            yield TableRow(name, option, value, _short(_HELP if option in ("-h", "--help") else explained))
    actions = _actions(text)
    kinds = _TYPED_WORDS.get(name, (f"words {' '.join(actions)}", "machine") if actions else ("",))
    for place, kind in enumerate(kinds, 1):
        yield TableRow(name, f"@{place}", kind)


def _explained(text: str) -> Iterator[tuple[list[tuple[str, bool, str]], str]]:
    """Yield the options that each line of a help text begins with, and their explanation.

    An option is (as it is typed, whether its value may be left out, the name of its value).
    """
    lines = text.splitlines()
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if not line.lstrip().startswith("-") or indent not in (2, 6):
            continue
        column = indent + _COLUMN
        head, explained = line[:column], [line[column:].strip()]
        # The options are longer than their column: the explanation, in lower case, begins on the next line.
        if line[column - 1 : column] not in ("", " ") or explained[0][:1].isupper():
            head, explained = line, []
        for further in lines[place + 1 :]:
            if not further.startswith(" " * column):
                break
            explained.append(further.strip())
        options = [(found[1], bool(found[2]), found[3] or "") for found in _SPELLED.finditer(head)]
        value = next((metavar for _, _, metavar in reversed(options) if metavar), "")
        yield [(option, maybe, metavar or value) for option, maybe, metavar in options], " ".join(explained)


def _actions(text: str) -> list[str]:
    """Return the actions that a usage line names: `[list] | add | remove`."""
    usage = text.splitlines()[0].removeprefix("usage: grass ").partition(" ")[2]
    words = [word.strip(" []") for word in usage.split("|")]
    return words if len(words) > 1 and all(_WORD.fullmatch(word) for word in words) else []
