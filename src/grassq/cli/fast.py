"""Where every call of `grass` starts. An enqueue or a show ends here, with nothing heavy; the rest is cli.main's."""

from __future__ import annotations

import os

from grassq.descriptors import open_standard_streams, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from grassq.net.http import Response, Target

#: Options before the job whose value is the next word: needed only to see whether a --help or --broker is ours.
# fmt: off
VALUE_OPTIONS = frozenset({
    "--require", "--gpu", "--cpu", "--mem", "--vram", "--disk", "--env", "-e", "--cwd", "--queue", "--name",
    "--priority", "--grace", "--on-lost", "--tries", "--retries", "--broker", "--worker", "--label",
})
# fmt: on
#: `show` and its other names.
SHOWS = ("show", "info", "status")


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    open_standard_streams()
    if argv and argv[0] == "enqueue" and not wants_help(argv[1:]):
        command = _enqueue
    elif argv and argv[0] in SHOWS and all(word == "--json" or not word.startswith("-") for word in argv[1:]):
        command = _show
    else:
        return _everything_else(argv)
    try:
        return command(argv[1:])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def wants_help(words: list[str]) -> bool:
    """Whether -h or --help stands among the options before the job; behind its first word it is the job's own."""
    return any(words[place] in ("-h", "--help") for place in option_places(words, VALUE_OPTIONS))


def take_option(
    option: str, words: list[str], values: frozenset[str] = VALUE_OPTIONS, *, names: int = 0
) -> tuple[str | None, list[str]]:
    """The value of an option before the job, and the words without it; behind the job's first word it is the job's."""
    found, left = None, words
    for place in option_places(words, values, names=names):
        head, equals, value = words[place].partition("=")
        if head != option:
            continue
        width = 1 if equals else 2
        value = value if equals else "".join(words[place + 1 : place + 2])
        if not value or found is not None:
            from grassq.errors import BadInput

            raise BadInput(f"{option} {'needs a value' if not value else 'is given twice'}")
        found, left = value, words[:place] + words[place + width :]
    return found, left


def option_places(words: list[str], values: frozenset[str], *, names: int = 0) -> Iterator[int]:
    """Where the options before the job stand; `names` plain words may stand among them."""
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word.startswith("-") and word != "--":
            yield place
            skip = word in values
        elif word == "--" or not names:
            return
        else:
            names -= 1


def _enqueue(words: list[str]) -> int:
    from grassq.errors import GrassError

    try:
        typed, words = take_option("--broker", words)
        response, broker = _send(typed, words)
        if "grass-lines" in response.headers:
            # Whose a --stdin is, the daemon alone knows: behind a program's name it is the program's.
            from grassq.cli.stdin import read_all

            response, broker = _send(typed, words, read_all())
    except GrassError as error:
        complain(str(error))
        return error.exit_code
    if broker is None:
        warn_of_version(response.headers.get("grass-version"))
    code = deliver(response.headers, response.body)
    follow = response.headers.get("grass-follow", "")
    if code == 0 and follow.isascii() and follow.isdigit():
        from grassq.cli.main import follow_job

        return follow_job(int(follow), typed)
    return code


def _send(typed: str | None, words: list[str], lines: bytes | None = None) -> tuple[Response, str | None]:
    from grassq import home as homes
    from grassq.net.encoding import REMOTE_CWD, REMOTE_UMASK, enqueue_body, new_key
    from grassq.net.retry import exchange

    home = homes.current()
    broker = homes.broker(home, typed)
    place: Target = home
    if broker is None:
        cwd, env, umask = homes.working_directory(), homes.environment(), homes.umask()
    else:
        from grassq.net.broker import open_broker

        # To another machine goes what was typed, and nothing else of this one.
        cwd, env, umask = REMOTE_CWD, {}, REMOTE_UMASK
        place = open_broker(home, broker)
        place.tell = complain
    sent = [os.fsencode(word) for word in words]
    body = enqueue_body(sent, cwd=cwd, env=env, umask=umask, key=new_key(), lines=lines)
    return exchange(place, "POST", "/v1/enqueue", body), broker


def _show(words: list[str]) -> int:
    """`show` without other options: as cli.main would do it, but nothing is loaded to read the words."""
    from grassq.cli import render
    from grassq.cli.commands.show import show
    from grassq.errors import GrassError

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


def deliver(headers: dict[str, str], body: bytes, *, stdout: int | None = 1) -> int:
    """Write the two parts of an answer to /v1/enqueue where they belong and return its exit code."""
    from grassq.net.http import is_number

    code, length = headers.get("grass-exit", ""), headers.get("grass-stdout", "")
    if not is_number(code) or not is_number(length):
        return _refusal(body)
    # Messages first: a reader that closes stdout early still learns of a warning.
    warn(body[int(length) :])
    text = body[: int(length)]
    if stdout == 2:
        warn(text)
    elif stdout is not None:
        try:
            write_all(stdout, text)
        except BrokenPipeError:
            raise
        except OSError as error:
            complain(f"{_stored(text)}, but stdout: {error.strerror}")
            return 1
    return int(code)


def _refusal(body: bytes) -> int:
    """What was refused before anybody looked at the words: a document, as other requests get."""
    import json

    try:
        error = json.loads(body)["error"]
        code, message = int(error["exit"]), str(error["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        code, message = 4, "the daemon's answer cannot be read; `grass restart` (jobs run on)"
    complain(message)
    return code


def _stored(text: bytes) -> str:
    import re

    if text.startswith(b'{"first"'):
        return "the jobs are stored"
    # Of several jobs the ids stand at the end, behind how many; of one, the first number is its id.
    ids = re.search(rb"(?:^|: |jobs? )([0-9]+(?:-[0-9]+)?)\n\Z", text) or re.search(rb"([0-9]+)", text)
    if ids is None:
        return "the job is stored"
    which = ids[1].decode()
    return f"jobs {which} are stored" if "-" in which else f"job {which} is stored"


def warn_of_version(daemon: str | None) -> None:
    """Say so when the daemon is of another release than this command."""
    from grassq.net.encoding import version_warning

    if warning := version_warning(daemon):
        complain(warning)


def complain(message: str) -> None:
    """Say one line on stderr."""
    warn(f"grass: {message}\n".encode("utf-8", "backslashreplace"))


def warn(data: bytes) -> None:
    """Write to stderr; where nobody can read it, that is no failure of what was asked."""
    try:
        write_all(2, data)
    except OSError:
        return


def _everything_else(argv: list[str]) -> int:
    try:
        from grassq.cli import main as full

        return full.main(argv)
    except KeyboardInterrupt:
        return 130
