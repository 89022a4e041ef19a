"""Sends what was typed after `enqueue`, `run` or `sweep`, and prints the answer. Light to load."""

from __future__ import annotations

import os

from grassq import home as homes
from grassq.cli.fast import find_target, warn
from grassq.cli.typed import VALUE_OPTIONS, last_value, take_option
from grassq.descriptors import write_all
from grassq.errors import BadInput, GrassError, Unreachable
from grassq.inputs.script_options import script_words
from grassq.net.encoding import BYTES_MAX, enqueue_body, new_key
from grassq.net.http import is_number
from grassq.net.retry import AWAY_S, exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.net.http import Response

READ_SIZE = 1 << 20


def enqueue(
    words: list[str],
    broker: str | None,
    verb: str = "enqueue",
    lines: bytes | None = None,
    *,
    strict: bool = False,
    away_s: float = AWAY_S,
    parameters: str = "",
    more: str = "",
) -> int:
    """Send the words as typed, without --broker, print the answer, follow the job if asked; return the exit code.

    The daemon splits the words. `lines` are the commands of a sweep, `parameters` its values in JSON; with --stdin
    lines are read from stdin; `more` are other members of the request. With `strict`, a followed job that cannot start
    is an error. A broker may be away for `away_s` seconds.
    """
    if lines is None and (of_script := script_words(words, VALUE_OPTIONS)):
        words = [*of_script, *words]
        more = f'"script_words":{len(of_script)}'
    response = _send(words, broker, verb, lines, away_s, parameters, more)
    if "grass-each" in response.headers:
        # Only the daemon can tell whether --each belongs to Grass or to the program of the job.
        from grassq.inputs.points import points_members

        named = response.body[: int(response.headers.get("grass-stdout", "0"))]
        members = points_members(named.decode())
        response = _send(words, broker, verb, lines, away_s, parameters, f"{more},{members}" if more else members)
    if "grass-lines" in response.headers:
        # Only the daemon can tell whether --stdin belongs to Grass or to the program of the job.
        return _enqueue_lines(words, broker, verb, _read_stdin(), away_s)
    return _answered(response, broker, verb, strict=strict, away_s=away_s)


def _enqueue_lines(words: list[str], broker: str | None, verb: str, lines: bytes, away_s: float) -> int:
    """Send the lines of stdin; to a broker on another machine in parts, as it takes a bounded number at once."""
    parts = [lines]
    if find_target(broker)[1] is not None:
        from grassq.core.syntax.shell_lines import parts_of

        parts = parts_of(lines)
    for number, part in enumerate(parts):
        code = _answered(_send(words, broker, verb, part, away_s), broker, verb)
        if code:
            if number:
                _warn(
                    b"grass: this is about part %d of %d; the parts before it are stored\n" % (number + 1, len(parts))
                )
            return code
    return 0


def _answered(
    response: Response, broker: str | None, verb: str, *, strict: bool = False, away_s: float = AWAY_S
) -> int:
    """Print an answer, follow the job if asked; return the exit code."""
    headers = response.headers
    code, length, job = (headers.get(f"grass-{name}", "") for name in ("exit", "stdout", "follow"))
    if not is_number(job):
        # With a job to follow, the client of its log warns.
        warn(headers)
    if not is_number(code) or not is_number(length):
        from grassq.net.client import read_answer

        read_answer(response, broker)  # raises the daemon's error
        raise Unreachable("the daemon's answer cannot be read; `grass restart` (jobs keep running)")
    _print(response.body[: int(length)], response.body[int(length) :], verb)
    if code == "0" and is_number(job):
        from grassq.cli.commands.jobs.run import follow

        return follow(int(job), broker, strict=strict, away_s=away_s)
    return int(code)


def _send(
    words: list[str],
    typed: str | None,
    verb: str,
    lines: bytes | None,
    away_s: float,
    parameters: str = "",
    more: str = "",
) -> Response:
    target, broker = find_target(typed, away_s)
    sender = homes.Sender.to(broker)
    if broker is not None:
        words = [*_project_words(words), *words]
    elif project := homes.tree_project(sender.cwd):
        # As a variable: a word before the others would change how the daemon reads them.
        sender.env = {**sender.env, b"GRASS_PROJECT": os.fsencode(project)}
    more = ",".join(each for each in (more, _at_member(words)) if each)
    raw = [os.fsencode(word) for word in words]
    body = enqueue_body(raw, sender, new_key(), verb, lines, parameters=parameters, more=more)
    response = exchange(target, "POST", "/v1/enqueue", body)
    if "grass-send" in response.headers and broker is None:
        # Only the daemon can tell which words are folders to send; it has checked the rest of the line by now.
        from grassq.cli.inputs.snapshots import make_snapshots

        sent = make_snapshots(homes.current(), response)
        body = enqueue_body(raw, sender, new_key(), verb, lines, sent, parameters, more)
        response = exchange(target, "POST", "/v1/enqueue", body)
    if broker is not None:
        # A user cannot change the version of a broker on another machine.
        response.headers.pop("grass-version", None)
    return response


def _project_words(words: list[str]) -> list[str]:
    """Return the option for the project of this environment or working tree, which is not sent to a broker.

    There is none if a project is typed.
    """
    stated = homes.project() or homes.tree_project()
    return [f"--project={stated}"] if stated and take_option("--project", words, names=1)[0] is None else []


def _at_member(words: list[str]) -> str:
    """Return what --at means by the clock and in the time zone of this command, as a member of the request.

    The words stay as they are: only the daemon can tell whether --at belongs to Grass or to the program of the job.
    """
    if not any(word.startswith("--at") for word in words):
        return ""
    typed = last_value("--at", words, names=1)
    if typed is None:
        return ""
    from grassq.local_times import with_distance

    try:
        return f'"at":"{with_distance(typed, "--at")}"'
    except BadInput:
        return ""  # the daemon says what is wrong


def _read_stdin() -> bytes:
    """Return all bytes of stdin, up to its end; raise BadInput above BYTES_MAX."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := os.read(0, READ_SIZE):
            parts.append(part)
            size += len(part)
            if size > BYTES_MAX:
                raise BadInput(
                    f"stdin holds more than {BYTES_MAX:,} bytes; enqueue the lines in parts (nothing is stored)"
                )
    except OSError as error:
        raise BadInput(f"stdin cannot be read: {error.strerror}") from error
    return b"".join(parts)


def _print(text: bytes, messages: bytes, verb: str) -> None:
    # Messages first: a warning is printed even if the reader closes stdout early.
    _warn(messages)
    if verb == "run":
        # Stdout is for the job's output: the line with the id goes to stderr, the bare id of -q nowhere.
        _warn(b"" if text.strip().isdigit() else text)
        return
    try:
        write_all(1, _safe(1, text))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GrassError(f"{_stored(text)}, but stdout: {error.strerror}") from error


def _warn(data: bytes) -> None:
    try:
        write_all(2, _safe(2, data))
    except OSError:
        return


def _safe(fd: int, data: bytes) -> bytes:
    """Return what a broker says: on a terminal with control characters as escapes, else unchanged."""
    if not os.isatty(fd):
        return data
    from grassq.cli.render import clean_bytes

    return clean_bytes(data)


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
