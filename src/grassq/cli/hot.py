"""Where every call of `grass` starts. An enqueue also ends here and loads nothing heavy; the rest goes to cli.main."""

from __future__ import annotations

import os
import sys

from grassq import __version__

#: Options before the job whose value is the next word: needed only to see whether a --help is ours.
# fmt: off
VALUE_OPTIONS = frozenset({
    "--require", "--gpu", "--cpu", "--mem", "--vram", "--disk", "--env", "-e", "--cwd", "--queue", "--name",
    "--priority", "--grace", "--on-lost", "--tries", "--broker",
})
# fmt: on


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code."""
    _open_standard_streams()
    if not argv or argv[0] != "enqueue" or wants_help(argv[1:]):
        return _everything_else(argv)
    try:
        return _enqueue(argv[1:])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def wants_help(words: list[str]) -> bool:
    """Whether -h or --help stands among the options before the job; behind its first word it is the job's own."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-h", "--help"):
            return True
        elif word == "--" or not word.startswith("-"):
            return False
        else:
            skip = word in VALUE_OPTIONS
    return False


def _enqueue(words: list[str]) -> int:
    from grassq import home as homes
    from grassq.errors import GrassError
    from grassq.net.exchange import exchange
    from grassq.net.wire import enqueue_body, new_key

    try:
        body = enqueue_body(
            [os.fsencode(word) for word in words],
            cwd=working_directory(),
            env=homes.environment(),
            umask=current_umask(),
            key=new_key(),
        )
        response = exchange(homes.current(), "POST", "/v1/enqueue", body)
    except GrassError as error:
        complain(str(error))
        return error.exit_code
    warn_of_version(response.headers.get("grass-version"))
    code = deliver(response.headers, response.body)
    follow = response.headers.get("grass-follow", "")
    if code == 0 and follow:
        from grassq.cli.main import follow_job

        return follow_job(int(follow))
    return code


def deliver(headers: dict[str, str], body: bytes, *, stdout: int | None = 1) -> int:
    """Write the two parts of an answer to /v1/enqueue where they belong and return its exit code."""
    code, length = headers.get("grass-exit", ""), headers.get("grass-stdout", "")
    if not code.isdigit() or not length.isdigit():
        complain("the daemon's answer cannot be read; `grass restart` (jobs run on)")
        return 4
    # Messages first: a reader that closes stdout early still learns of a warning.
    warn(body[int(length) :])
    text = body[: int(length)]
    if stdout == 2:
        warn(text)
    elif stdout is not None:
        try:
            write(stdout, text)
        except BrokenPipeError:
            raise
        except OSError as error:
            complain(f"{_stored(text)}, but stdout: {error.strerror}")
            return 1
    return int(code)


def _stored(text: bytes) -> str:
    import re

    # In all its forms the first number of an answer is the job's id.
    number = re.search(rb"[0-9]+", text)
    return f"job {number[0].decode()} is stored" if number else "the job is stored"


def warn_of_version(daemon: str | None) -> None:
    """Say once when the daemon is of another release than this command."""
    if daemon is not None and daemon != __version__:
        complain(f"the daemon is version {daemon}, this command is {__version__}; `grass restart` (jobs run on)")


def complain(message: str) -> None:
    """Say one line on stderr."""
    warn(f"grass: {message}\n".encode("utf-8", "backslashreplace"))


def warn(data: bytes) -> None:
    """Write to stderr; where nobody can read it, that is no failure of what was asked."""
    try:
        write(2, data)
    except OSError:
        return


def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[os.write(descriptor, data) :]


def working_directory() -> bytes:
    """The current directory, or a sentence about why there is none."""
    try:
        return os.getcwdb()
    except OSError as error:
        from grassq.errors import BadInput

        raise BadInput(f"the current directory cannot be used ({error.strerror}); cd to another one") from error


def current_umask() -> int:
    """The umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _everything_else(argv: list[str]) -> int:
    try:
        from grassq.cli import main as full

        return full.main(argv)
    except KeyboardInterrupt:
        return 130


def _open_standard_streams() -> None:
    # With one of 0-2 closed, our socket would get its number and the job's id would be written into it.
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass
