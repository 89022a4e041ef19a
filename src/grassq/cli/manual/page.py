"""Makes the man page grass(1): commands from their parsers and help texts, then what holds for all of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from textwrap import wrap

from grassq import __version__
from grassq.cli import help as texts
from grassq.cli.main import parsers
from grassq.cli.manual.parsed import shown, spelled, synopsis
from grassq.core.syntax.commands import BY_NAME

#: The longest line of text in the file, before its characters are escaped.
WIDTH = 76
#: An option's explanation begins this many columns after the option.
COLUMN = texts.COLUMN - 2
#: Characters that roff would read, or print as another than the one in the keyboard.
_ESCAPED = str.maketrans(
    {
        "\\": r"\e",
        "-": r"\-",
        "'": r"\(aq",
        "`": r"\(ga",
        '"': r"\(dq",
        "^": r"\(ha",
        "~": r"\(ti",
    }
)
#: An action such as `test NAME`, and the blanks before its explanation.
_ACTION = re.compile(r" {2,6}[a-z][a-z-]*(?: [A-Z\[][^ ]*)* {2,}(?=[^ ])")
_HEAD = f"""\
.\\" Made by docs/generate.py (`make docs`); edits here are lost.
.TH GRASS 1 "" "grassq {__version__}" "Grass"
.\\" Options and paths are not cut at line ends.
.nh
.ad l
.SH NAME
grass \\- a job queue for people with GPUs
.SH SYNOPSIS
.B grass
.I COMMAND
.RI [ WORDS ...]
.SH DESCRIPTION
"""
_DESCRIPTION = """\
A job says what it needs, such as half a GPU and four cores, and runs as soon as that is free: even after you log out,
and also when the daemon restarts. The first command starts the daemon. State is kept in $GRASS_HOME, else in
$XDG_STATE_HOME/grass, else in ~/.local/state/grass.

`grass help` lists the commands, and `grass COMMAND --help` explains one. grassq is the same program under another name.
"""
_FILES = (
    ("$GRASS_HOME/grass.toml", "the settings"),
    ("$GRASS_HOME/daemon.log", "what the daemon says"),
    ("$GRASS_HOME/jobs/ID/ATTEMPT/", "the log and the files of a job"),
)
_VARIABLES = (
    ("GRASS_HOME", "the folder of everything; two homes are two queues"),
    ("GRASS_BROKER", "the broker that commands go to, HOST or HOST:PORT; local is this machine"),
    ("NO_COLOR", "if set to anything, nothing is printed in colour"),
)


def man_page(settings: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the page; a setting is its name, its type, its default and its meaning."""
    parts = [_HEAD, *_running_text(_DESCRIPTION), ".SH COMMANDS\n"]
    for name, parser in parsers():
        if name == BY_NAME[name].name:
            parts += [f".SS grass {_escaped(name)}\n", *_command(name, parser)]
    parts += [".SH SELECTORS, DURATIONS AND EXIT STATUS\n", *_running_text(texts.FOOT)]
    parts += [".SH ENVIRONMENT\n", *_entries(_VARIABLES), ".SH SETTINGS\n"]
    parts += _running_text("A line of grass.toml in the home, or a variable GRASS_NAME; `grass restart` reads them.")
    parts += _entries((f"{name} = {default}", meaning) for name, _, default, meaning in settings)
    page = "".join([*parts, ".SH FILES\n", *_entries(_FILES)])
    # A heading begins a paragraph by itself.
    return re.sub(r"^(\.S[SH] .*\n)\.PP\n", r"\1", page, flags=re.MULTILINE)


def _command(name: str, parser: argparse.ArgumentParser | str) -> Iterator[str]:
    aliases = BY_NAME[name].aliases
    if isinstance(parser, str):
        # The options of a job are told once, for `enqueue`.
        yield from _help_text(texts.text_of(name, job_options=name == "enqueue"))
    else:
        yield from _running_text(parser.description or "")
        yield from _usage(synopsis(parser))
        pairs = (
            (", ".join(spelled(action, each) for each in action.option_strings) or str(action.metavar), action.help)
            for action in shown(parser)
        )
        yield from _entries((head, (help_ or "").replace("%%", "%")) for head, help_ in pairs)
        yield from _help_text(parser.epilog or "")
    if aliases:
        yield from _running_text("Also: " + ", ".join(f"`grass {alias}`" for alias in aliases) + ".")


def _help_text(text: str) -> Iterator[str]:
    """Yield a help text as roff: its paragraphs, its examples as they are typed, and its options."""
    lines = text.removeprefix("usage: ").splitlines()
    at = 0
    while at < len(lines):
        line, indent = lines[at], len(lines[at]) - len(lines[at].lstrip())
        at += 1
        if not line:
            continue
        if not indent and not line.startswith("grass "):
            paragraph = [line]
            while at < len(lines) and lines[at] and not lines[at].startswith(" "):
                paragraph.append(lines[at])
                at += 1
            yield from _running_text(" ".join(paragraph))
        elif (column := _column(line)) is not None:
            head, explained = line[:column].strip(), [line[column:].strip()]
            if line[column - 1 : column] not in ("", " ") or explained[0][:1].isupper():
                head, explained = line.strip(), []
            while at < len(lines) and lines[at].startswith(" " * column):
                explained.append(lines[at].strip())
                at += 1
            yield from _entries([(head, " ".join(explained))])
        else:
            block = [line.strip()]
            while at < len(lines) and lines[at].startswith(" ") and _column(lines[at]) is None:
                block.append(lines[at].strip())
                at += 1
            yield from _as_typed(block)


def _column(line: str) -> int | None:
    """Return where the explanation of an option or of an action begins in a line of a help text; None: in no column."""
    indent = len(line) - len(line.lstrip())
    if indent in (2, 6) and line.lstrip().startswith("-"):
        return indent + COLUMN
    found = _ACTION.match(line)
    return None if found is None else found.end()


def _running_text(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield ".PP\n" + _filled(paragraph)


def _entries(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for head, explained in pairs:
        yield f".TP\n.B {_escaped(head)}\n" + _filled(explained or "")


def _usage(line: str) -> Iterator[str]:
    """Yield how a command is typed; an option and its value stay on one line."""
    kept = re.sub(r"\[[^]]*\]", lambda found: found[0].replace(" ", "\0"), line)
    lines = wrap(kept, WIDTH, break_on_hyphens=False, break_long_words=False)
    yield ".PP\n.in +2n\n" + "".join(_escaped(each).replace("\0", r"\ ") + "\n" for each in lines) + ".in\n"


def _as_typed(lines: Iterable[str]) -> Iterator[str]:
    yield ".PP\n.in +2n\n.nf\n"
    for line in lines:
        yield _protected(_escaped(line)) + "\n"
    yield ".fi\n.in\n"


def _filled(text: str) -> str:
    lines = wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False)
    return "".join(_protected(_escaped(line)) + "\n" for line in lines)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED)


def _protected(line: str) -> str:
    """Return a line that is no request, although it begins with a dot."""
    return r"\&" + line if line.startswith(".") else line
