"""Every call of `grass` starts here. Runs `enqueue` and `show` with few imports; cli.main runs all other commands."""

from __future__ import annotations

import os

from grassq import home as homes
from grassq.cli.output import complain, deliver, warn_of_version
from grassq.cli.typed import take_option, wants_help
from grassq.descriptors import open_standard_streams
from grassq.errors import GrassError
from grassq.net.encoding import enqueue_body, new_key
from grassq.net.retry import exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.net.http import Response, Target

#: `show` and its other names.
SHOWS = ("show", "info", "status")


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    open_standard_streams()
    try:
        if argv and argv[0] == "enqueue" and not wants_help(argv[1:]):
            return _enqueue(argv[1:])
        if argv and argv[0] in SHOWS and all(word == "--json" or not word.startswith("-") for word in argv[1:]):
            return _show(argv[1:])
        from grassq.cli import main as full

        return full.main(argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def find_target(typed: str | None) -> tuple[Target, str | None]:
    """Return the target of requests, and the broker's address or None; `typed` is the value of --broker."""
    home = homes.current()
    broker = homes.broker(home, typed)
    if broker is None:
        return home, None
    from grassq.net.broker import open_broker

    target = open_broker(home, broker)
    target.tell = complain
    return target, broker


def send(words: list[str], typed: str | None, verb: str = "enqueue", lines: bytes | None = None) -> Response:
    """Send the words of `grass enqueue`, without --broker, as typed; the daemon splits them."""
    target, broker = find_target(typed)
    sender = homes.Sender.to(broker)
    body = enqueue_body([os.fsencode(word) for word in words], sender, new_key(), verb, lines)
    response = exchange(target, "POST", "/v1/enqueue", body)
    if broker is not None:
        # A user cannot change the version of a broker on another machine.
        response.headers.pop("grass-version", None)
    return response


def _enqueue(words: list[str]) -> int:
    try:
        typed, words = take_option("--broker", words)
        response = send(words, typed)
        if "grass-lines" in response.headers:
            # Only the daemon can tell whether --stdin belongs to Grass or to the program of the job.
            from grassq.cli.stdin import read_all

            response = send(words, typed, lines=read_all())
    except GrassError as error:
        complain(str(error))
        return error.exit_code
    warn_of_version(response.headers.get("grass-version"))
    code = deliver(response.headers, response.body)
    from grassq.net.http import is_number

    follow = response.headers.get("grass-follow", "")
    if code == 0 and is_number(follow):
        from grassq.cli.main import follow_job

        return follow_job(int(follow), typed)
    return code


def _show(words: list[str]) -> int:
    """Run `show` without other options than --json; argparse is not loaded."""
    from grassq.cli import render
    from grassq.cli.commands.show import show

    try:
        return show([word for word in words if word != "--json"], as_json="--json" in words)
    except GrassError as error:
        render.error(str(error))
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        render.error(render.reason(error))
        return 1
