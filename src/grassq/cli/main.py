"""Runs one command of the table in core/syntax/commands.py; builds only the parser of this command."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import NoReturn, cast

from grassq import __version__
from grassq.cli import help as texts
from grassq.cli import render
from grassq.cli.fast import guarded
from grassq.cli.typed import wants_help
from grassq.core.syntax.commands import BY_NAME, CommandInfo
from grassq.errors import BadInput

BROKER_HELP = "the broker, HOST or HOST:PORT (default: $GRASS_BROKER, then `grass use`); local is this machine"


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line that names the help."""

    def error(self, message: str) -> NoReturn:
        """Raise the error as BadInput."""
        state = message.removeprefix("unrecognized arguments: --")
        if _is_state(state):
            raise BadInput(f"{message}; a state is a word: {self.prog} {state}")
        raise BadInput(f"{message}; see `{self.prog} --help`")


def _is_state(word: str) -> bool:
    from grassq.core.syntax.selectors import ByState, parse

    try:
        return isinstance(parse(word), ByState)
    except BadInput:
        return False


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code; never a traceback."""
    return guarded(lambda: dispatch(argv))


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser | str]]:
    """Yield every command with its parser, or with its help text if the command takes its words as typed."""
    for name, command in BY_NAME.items():
        yield name, texts.text_of(name) if command.takes_words else parser_of(name)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    command = _find(name)
    summary = command.summary[0].upper() + command.summary[1:] + "."
    parser = Parser(prog=f"grass {name}", description=summary, allow_abbrev=False)
    _module(command).build(name, parser)
    if not command.is_local:
        parser.add_argument("--broker", metavar="ADDRESS", help=BROKER_HELP)
    return parser


def dispatch(argv: list[str]) -> int:
    """Run one command line and return its exit code; raise its error."""
    argv = _in_our_words(argv)
    if not argv or argv[0] in ("-h", "--help") or argv == ["help"]:
        return render.text(texts.overview())
    if argv[0] in ("-V", "--version"):
        return render.text(f"grass {__version__}\n")
    if argv[0] == "help":
        return render.text(_help_of(_in_our_words(argv[1:])[0]))
    if argv[0].startswith("-"):
        raise _option_first(argv)
    return _command(argv[0], argv[1:])


def _help_of(name: str) -> str:
    return texts.text_of(name) if _find(name).takes_words else parser_of(name).format_help()


def _in_our_words(argv: list[str]) -> list[str]:
    """Return the words with a word of another tool replaced by ours; raise BadInput that names the right command."""
    if not argv or argv[0] in BY_NAME:
        return argv
    from grassq.cli import synonyms

    name, words = argv[0], argv[1:]
    if (ours := synonyms.in_our_words(name, words)) is not None:
        return ours
    if advice := synonyms.advice(name, words):
        raise BadInput(advice)
    return argv


def _option_first(argv: list[str]) -> BadInput:
    place = next((place for place, word in enumerate(argv) if word in BY_NAME), None)
    if place is None:
        return BadInput(f"there is no option '{argv[0]}' of `grass` itself; `grass help` lists the commands")
    from grassq.cli.synonyms import as_typed

    words = as_typed([*argv[:place], *argv[place + 1 :]])
    return BadInput(f"options come after the command: grass {argv[place]} {words}")


def _command(name: str, argv: list[str]) -> int:
    command = _find(name)
    if command.takes_words:
        return render.text(_help_of(name)) if wants_help(argv) else cast(int, _module(command).words(name, argv))
    if any(word in ("-h", "--help") for word in argv):
        return render.text(_help_of(name))
    if command.is_local:
        from grassq.cli.synonyms import advice_about_daemon

        if advice := advice_about_daemon(name, argv):
            raise BadInput(advice)
    if "--sort" in argv[:-1]:
        # argparse takes `-took` for an option.
        place = argv.index("--sort")
        argv = [*argv[:place], f"--sort={argv[place + 1]}", *argv[place + 2 :]]
    arguments = parser_of(name).parse_intermixed_args(argv)
    return cast(int, arguments.run(arguments))


def _find(name: str) -> CommandInfo:
    if name in BY_NAME:
        return BY_NAME[name]
    from grassq.cli.synonyms import HARMFUL
    from grassq.core.syntax.options import closest

    near = closest(name, BY_NAME.keys() - HARMFUL)
    hint = f"did you mean '{near}'?" if near else "`grass help` lists them"
    raise BadInput(f"there is no command '{name}'; {hint}")


def _module(command: CommandInfo) -> ModuleType:
    return importlib.import_module(f"grassq.cli.commands.{command.module}")
