"""The table of commands. Builds only the parser of the command that was named."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol, cast

from grassq import __version__
from grassq.cli import help as texts
from grassq.cli import render
from grassq.errors import EXIT_INTERRUPTED, BadInput, GrassError

#: Which file holds a command; the words of those in WORDS are not ours to parse.
MODULES = {
    "show": "why", "info": "why", "status": "why", "why": "why",
    "kill": "change", "rerun": "change", "hold": "change", "release": "change", "priority": "change", "clean": "change",
    "wait": "wait",
    "log": "logs", "follow": "logs",
    "delete-queue": "queues", "pause": "queues", "resume": "queues",
    "daemon": "daemon", "start": "daemon", "stop": "daemon", "restart": "daemon",
    "doctor": "doctor",
    "join": "access", "login": "access", "use": "access", "token": "access", "audit": "access",
    "drain": "workers", "remove": "workers",
    "store": "store",
}  # fmt: skip
#: Commands about this machine; all others can be asked of a broker elsewhere.
LOCAL = {"daemon", "start", "stop", "restart", "doctor", "join", "login", "use", "store"}
BROKER_HELP = "the broker to ask, HOST or HOST:PORT (default: $GRASS_BROKER, then `grass use`); local is this machine's"
WORDS = {"enqueue": "run", "run": "run", "sweep": "sweep", "create-queue": "queues"}
#: What a program ends with that could not write because its reader had gone, as under a shell.
EXIT_BROKEN_PIPE = 141


class CommandModule(Protocol):
    """What a file of commands offers."""

    def build(self, name: str, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments and `set_defaults(run=...)`."""

    def words(self, name: str, argv: list[str]) -> int:
        """Run a command of WORDS."""


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line that names the help."""

    def error(self, message: str) -> NoReturn:
        """Complain in one line."""
        raise BadInput(f"{message}; see `{self.prog} --help`")


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code; never a traceback."""
    return _guarded(lambda: _dispatch(argv))


def follow_job(job: int, broker: str | None = None) -> int:
    """Follow a job just enqueued and return its own exit code."""
    from grassq.cli.commands import run

    return _guarded(lambda: run.follow(job, broker))


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser | str]]:
    """Every command with its parser, or its text where the daemon splits the words."""
    for name in texts.names():
        yield name, texts.TEXTS[name] if name in WORDS else parser_of(name)


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    summary = texts.summary(name)
    parser = Parser(prog=f"grass {name}", description=summary[0].upper() + summary[1:] + ".", allow_abbrev=False)
    _noun(MODULES[name]).build(name, parser)
    if name not in LOCAL:
        parser.add_argument("--broker", metavar="ADDRESS", help=BROKER_HELP)
    return parser


def _guarded(command: Callable[[], int]) -> int:
    try:
        return command()
    except GrassError as error:
        render.error(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            render.error(str(interrupt.args[0]))
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except OSError as error:
        render.error(render.reason(error))
        return 1


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        return render.text(texts.overview())
    if argv[0] in ("-V", "--version"):
        return render.text(f"grass {__version__}\n")
    if argv[0] == "help":
        return _help(argv[1:])
    return _command(argv[0], argv[1:])


def _help(words: list[str]) -> int:
    if not words:
        return render.text(texts.overview())
    if words[0] in WORDS:
        return render.text(texts.TEXTS[words[0]])
    _known(words[0])
    return render.text(parser_of(words[0]).format_help())


def _command(name: str, argv: list[str]) -> int:
    if name in WORDS:
        from grassq.cli.fast import wants_help

        if wants_help(argv):
            return render.text(texts.TEXTS[name])
        return _noun(WORDS[name]).words(name, argv)
    _known(name)
    parser = parser_of(name)
    if any(word in ("-h", "--help") for word in argv):
        return render.text(parser.format_help())
    arguments = parser.parse_intermixed_args(argv)
    return cast(int, arguments.run(arguments))


def _known(name: str) -> None:
    if name in MODULES:
        return
    import difflib

    near = difflib.get_close_matches(name, texts.names(), n=1)
    hint = f"did you mean '{near[0]}'?" if near else "`grass help` lists them"
    raise BadInput(f"there is no command '{name}'; {hint}")


def _noun(module: str) -> CommandModule:
    return cast(CommandModule, importlib.import_module(f"grassq.cli.commands.{module}"))
