"""Reads the options that a script gives its own job, in lines such as `#GRASS --gpu 0.5`. Light to load.

The lines are among the first comment lines of the file that the job runs. For a command line their words are put
before the typed ones, without those that are typed too; for a program they are the options that it does not give.
"""

# pathlib would cost more than the rest of an enqueue.
# ruff: noqa: PTH116, PTH118

from __future__ import annotations

import os
import stat

from grassq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from grassq.core.syntax.options import GivenOptions

#: How much of a script is looked at: of a file that does not begin with comments, the first bytes only.
FIRST_BYTES, BYTES_MAX, LINES_MAX = 4096, 64 << 10, 100
MARKS = (b"#GRASS", b"# GRASS")
#: Programs whose first argument that is a file is a script; with a number, such as python3.12, too.
INTERPRETERS = frozenset({"python", "bash", "sh", "zsh", "dash", "ksh", "perl", "ruby", "Rscript", "julia"})
#: How many words after an interpreter may be its script. After -c, -m and -e, also in -lc, there is none.
ARGUMENTS_MAX, NO_SCRIPT = 16, "cme"
#: The fields of which each typed value is added to those of the script: the last one of a name counts.
ADDED = ("env", "tags")
#: Options that say how the command works: a script has nothing to say about that.
TYPED_ONLY = ("quiet", "json", "sync", "stdin", "broker")


#: Options that make many jobs of one, or none: for `grass enqueue`, where they could be typed too.
OF_ENQUEUE = ("array", "each", "dry_run")


def script_words(words: list[str], values: Collection[str]) -> list[str]:
    """Return the options that the script of a job gives, as words to put before those typed after `enqueue`.

    `values` are the options whose value is the next word.
    """
    typed, command = _split(words, values)
    base = _directory(typed)
    path = script_of(command[1:] if command[:1] == ["--"] else command, base)
    has_queue = path is None and len(command) > 1 and command[0] != "--" and not _is_interpreter(command[0])
    if has_queue:
        # Only the daemon knows whether the first word is a queue.
        more, rest = _split(command[1:], values)
        typed = [*typed, *more]
        path = script_of(rest[1:] if rest[:1] == ["--"] else rest, base)
    given = None if path is None else read_script(path)
    return [] if given is None else _words(given, typed, has_queue)


def line_words(line: str, typed: list[str]) -> list[str]:
    """Return the options that the script in a line gives, as words to put before the typed options of many jobs."""
    path = script_of(split_line(line), _directory(typed))
    given = None if path is None else read_script(path)
    if path is None or given is None:
        return []
    refuse_of_enqueue(path, given)
    return _words(given, typed, False)


def split_line(line: str) -> list[str]:
    """Return the words of a line; none if its quotes cannot be read, which is said elsewhere."""
    import shlex

    try:
        return shlex.split(line)
    except ValueError:
        return []


def refuse_of_enqueue(path: str, given: GivenOptions) -> None:
    """Refuse the options of a script that only `grass enqueue` knows."""
    from grassq.core.syntax.options import ENQUEUE

    for name in given.values:
        if ENQUEUE[f"--{name}".encode()].field in OF_ENQUEUE:
            raise BadInput(f"{path}: its #GRASS lines have --{name}, which is for `grass enqueue` alone")


def _split(words: list[str], values: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the options before the first plain word, with their values, and the words from there on."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        place += 2 if words[place] in values else 1
    return words[:place], words[place:]


def _directory(typed: list[str]) -> str:
    """Return the value of --cwd, which the name of a script is relative to."""
    for place, word in enumerate(typed):
        if word == "--cwd" and place + 1 < len(typed):
            return typed[place + 1]
        if word.startswith("--cwd="):
            return word.partition("=")[2]
    return ""


def script_of(command: Sequence[str], base: str) -> str | None:
    """Return the file that a command runs: its program, or the first file that is given to an interpreter."""
    assigned = 0
    while assigned < len(command) and command[assigned].partition("=")[0].isidentifier() and "=" in command[assigned]:
        assigned += 1
    command = command[assigned:]
    if not command:
        return None
    if not _is_interpreter(command[0]):
        return _file(command[0], base)
    for word in command[1 : ARGUMENTS_MAX + 1]:
        if word.startswith("-"):
            if not word.startswith("--") and word[-1] in NO_SCRIPT:
                return None
        elif (found := _file(word, base)) is not None:
            return found
    return None


def _is_interpreter(program: str) -> bool:
    return program.rpartition("/")[2].rstrip("0123456789.") in INTERPRETERS


def _file(word: str, base: str) -> str | None:
    path = os.path.join(base, word)
    try:
        return path if stat.S_ISREG(os.stat(path).st_mode) else None
    except (OSError, ValueError):
        return None


def _marked_lines(path: str) -> list[tuple[int, bytes]]:
    """Return the marked lines among the first comment lines of a file, without their marks, by number."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        raw = os.read(descriptor, FIRST_BYTES)
        while len(raw) < BYTES_MAX and _is_comment(raw) and (part := os.read(descriptor, BYTES_MAX - len(raw))):
            raw += part
    except OSError:
        return []
    finally:
        os.close(descriptor)
    found: list[tuple[int, bytes]] = []
    for number, line in enumerate(raw.split(b"\n", LINES_MAX)[:LINES_MAX], 1):
        if line.strip() and not line.startswith(b"#"):
            break
        for mark in MARKS:
            if line.startswith(mark) and line[len(mark) : len(mark) + 1].strip() == b"":
                found.append((number, line[len(mark) :].strip()))
    return found


def _is_comment(raw: bytes) -> bool:
    """Tell whether a text has only comment lines and blank lines, so that more of them may follow."""
    return b"\0" not in raw and all(not line.strip() or line.startswith(b"#") for line in raw.split(b"\n"))


def read_script(path: str) -> GivenOptions | None:
    """Return the options in a script, None if it has none; raise BadInput with the line of a wrong one."""
    lines = _marked_lines(path)
    if not lines:
        return None
    # Loaded only where there are such lines: it takes longer than all else.
    from grassq.core.syntax.options import ENQUEUE, GivenOptions

    given = GivenOptions(ENQUEUE)
    for number, line in lines:
        try:
            _take(given, line)
        except BadInput as error:
            raise BadInput(f"{path}, line {number}: {error}") from None
    return given


def _words(given: GivenOptions, typed: list[str], has_queue: bool) -> list[str]:
    """Return the options of a script that are not typed."""
    from grassq.core.syntax.options import ENQUEUE, GivenOptions

    ours = GivenOptions(ENQUEUE)
    try:
        ours.take([os.fsencode(word) for word in typed], 0)
    except BadInput:
        return []  # the daemon says what is wrong with the typed words
    fields = {ENQUEUE[f"--{name}".encode()].field for name in ours.values} - {*ADDED}
    if ours.amounts:
        fields.add("request")
    if has_queue:
        fields.add("queue")
    found = []
    for name, values in given.values.items():
        option = ENQUEUE[f"--{name}".encode()]
        if option.field not in fields:
            found += [option.typed + ("" if not value else f"={os.fsdecode(value)}") for value in values]
    if "require" not in ours.values:
        found += [f"--{name}={amount}" for name, amount in given.amounts.items() if name not in ours.amounts]
    return found


def _take(given: GivenOptions, line: bytes) -> None:
    """Take in the options of one line; raise BadInput for a word that is none, and for a wrong value."""
    import shlex

    from grassq.core.syntax.options import ENQUEUE, unknown

    try:
        words = [os.fsencode(word) for word in shlex.split(os.fsdecode(line))]
    except ValueError as error:
        raise BadInput(f"the line cannot be split into words: {error}") from None
    at = given.take(words, 0)
    if at < len(words):
        if words[at].startswith(b"-"):
            raise unknown(words[at], ENQUEUE)
        raise BadInput(f"{os.fsdecode(words[at])!r} is not an option; a #GRASS line has options alone")
    for name in given.values:
        given.value(name)
        if ENQUEUE[f"--{name}".encode()].field in TYPED_ONLY:
            raise BadInput(f"--{name} says how a command works, so it is typed and no part of a script")
