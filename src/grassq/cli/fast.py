"""Every call of `grass` starts here. Runs `enqueue` and `show` with few imports; cli.main runs all other commands."""

from __future__ import annotations

import os

from grassq import home as homes
from grassq.cli.typed import take_option, wants_help
from grassq.descriptors import open_standard_streams
from grassq.errors import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, GrassError
from grassq.net.encoding import version_warning
from grassq.net.retry import AWAY_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grassq.net.http import Target

#: `show` and its other names.
SHOWS = ("show", "info", "status")
#: What the scripts of the shells call at every TAB; no command for people.
COMPLETE = "__complete"


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    open_standard_streams()
    return guarded(lambda: _run(argv))


def _run(argv: list[str]) -> int:
    if argv and argv[0] == "enqueue" and not wants_help(argv[1:]):
        from grassq.cli.enqueue import enqueue

        typed, words = take_option("--broker", argv[1:])
        return enqueue(words, typed)
    if argv and argv[0] in SHOWS and all(word == "--json" or not word.startswith("-") for word in argv[1:]):
        from grassq.cli.commands.looking.show import ShowOptions, show

        options = ShowOptions()
        options.as_json = "--json" in argv
        return show([word for word in argv[1:] if word != "--json"], options)
    if argv and argv[0] == COMPLETE:
        from grassq.cli.completion.answer import answer

        return answer(argv[1:])
    from grassq.cli.main import dispatch

    return dispatch(argv)


def guarded(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; an error is one line on stderr, never a traceback."""
    try:
        return command()
    except GrassError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            _begin_line()
            complain(str(interrupt.args[0]))
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except OSError as error:
        from grassq.cli.render import reason

        complain(reason(error))
        return 1


def _begin_line() -> None:
    """Begin a new line on a terminal: the cursor may be behind output without a line end, or behind `^C`."""
    try:
        if os.isatty(2):
            os.write(2, b"\n")
    except OSError:
        return


def find_target(typed: str | None, away_s: float = AWAY_S) -> tuple[Target, str | None]:
    """Return the target of requests, and the broker's address or None; `typed` is the value of --broker.

    A broker may be away for `away_s` seconds before a request fails.
    """
    home = current_home()
    broker = homes.broker(home, typed)
    if broker is None:
        return home, None
    from grassq.net.broker import open_broker

    return open_broker(home, broker, complain, away_s), broker


def current_home() -> str:
    """Return the home of this command, and say which it is if it had to be guessed."""
    home = homes.current()
    if homes.is_guessed():
        complain(f"HOME is not set; the queue is in {home} (GRASS_HOME names another)")
    return home


def complain(message: str) -> None:
    """Print one line on stderr; ignore an unwritable stderr."""
    from grassq.cli import render

    render.error(message)


def warn(headers: Mapping[str, str]) -> None:
    """Print what the headers of a local daemon's answer warn of: another version, or what it says itself."""
    for warning in (version_warning(headers.get("grass-version")), headers.get("grass-warning")):
        if warning:
            complain(warning)
