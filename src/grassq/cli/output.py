"""Writes the answer to an enqueue, and messages to stderr. Light to load; `render` writes everything else."""

from __future__ import annotations

from grassq.descriptors import write_all
from grassq.net.encoding import version_warning


def warn(data: bytes) -> None:
    """Write to stderr; ignore an unwritable stderr."""
    try:
        write_all(2, data)
    except OSError:
        return


def complain(message: str) -> None:
    """Write one line to stderr."""
    warn(f"grass: {message}\n".encode("utf-8", "backslashreplace"))


def warn_of_version(daemon: str | None) -> None:
    """Warn if the daemon has another version than this command."""
    if warning := version_warning(daemon):
        complain(warning)


def deliver(headers: dict[str, str], body: bytes, *, stdout: int | None = 1) -> int:
    """Write the answer to /v1/enqueue to stdout and stderr, and return its exit code.

    `stdout` is the descriptor for the first part; None drops this part.
    """
    from grassq.net.http import is_number

    code, length = headers.get("grass-exit", ""), headers.get("grass-stdout", "")
    if not is_number(code) or not is_number(length):
        return _refusal(body)
    # Messages first: a warning is printed even if the reader closes stdout early.
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
    """Print why the daemon refused the request, and return the exit code."""
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
    # For several jobs the ids are at the end, after the count; for one job the first number is its id.
    ids = re.search(rb"(?:^|: |jobs? )([0-9]+(?:-[0-9]+)?)\n\Z", text) or re.search(rb"([0-9]+)", text)
    if ids is None:
        return "the job is stored"
    which = ids[1].decode()
    return f"jobs {which} are stored" if "-" in which else f"job {which} is stored"
