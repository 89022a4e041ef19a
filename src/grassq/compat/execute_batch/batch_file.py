"""The lines of a batch: a command on each line, and the name of its job."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from grassq.compat.execute_batch.arguments import EVERYTHING, JobWords, read_line
from grassq.core.syntax import shell_lines
from grassq.errors import BadInput
from grassq.inputs.files import read_file

#: The largest file, and the most commands in it: as many as one submission may have.
FILE_MAX = 64 << 20
LINES_MAX = 20_000
#: File systems take no longer names; the longest suffix of a result is added to it.
NAME_MAX = 200

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


class BatchLine(NamedTuple):
    """One command of a batch."""

    #: The number of the line in the file, from 1.
    number: int
    #: The name of its results.
    name: str
    command: bytes
    forward: tuple[str, ...] = EVERYTHING
    backwards: tuple[str, ...] = EVERYTHING
    #: The tree whose files are not kept if they come back unchanged; "" keeps all files.
    sent: str = ""


def read(path: str, cwd: str, forward: tuple[str, ...], backwards: tuple[str, ...], kabuki: bool) -> list[BatchLine]:
    """Return the commands of a file; raise BadInput in one line for a file or a line that cannot be used."""
    name = batch_name(path, cwd)
    content = read_file(path, FILE_MAX, "cut it into several batches")
    lines: list[BatchLine] = []
    for number, line in enumerate(shell_lines.split(content), 1):
        command = shell_lines.command(line)
        if command is None:
            continue
        try:
            shell_lines.check(command)
            job = _kabuki(command) if kabuki else JobWords(os.fsdecode(command), forward, backwards)
        except BadInput as error:
            raise BadInput(f"{path} line {number}: {error}") from None
        own = job.name or f"{name}.{number}"
        lines.append(BatchLine(number, own, os.fsencode(job.command), job.forward, job.backwards))
    if not lines:
        raise BadInput(f"{path} has no command in it: a command on each line is needed")
    if len(lines) > LINES_MAX:
        raise BadInput(f"{path} has {len(lines):,} commands; a batch has at most {LINES_MAX:,}")
    again = [each for each, times in Counter(line.name for line in lines).items() if times > 1]
    if again:
        raise BadInput(f"{path}: two lines have the name {again[0]}; every job needs results of its own")
    return lines


def batch_name(path: str, cwd: str) -> str:
    """Return what the names of a batch's jobs begin with: its path with _ for /, so that it is one name."""
    # Normalised first: `./x.sh` and `x.sh` are one batch, and no result is hidden. A file above this directory goes by
    # its whole path.
    plain = os.path.normpath(path)
    if plain.startswith("../"):
        plain = os.path.normpath(Path(cwd, path))
    name = _UNPRINTABLE.sub("_", plain.replace("/", "_"))
    if name.startswith("."):
        name = f"_{name}"
    if len(os.fsencode(name)) > NAME_MAX:
        raise BadInput(f"{path} has a name of more than {NAME_MAX} bytes, and results cannot be named after it")
    return name


def _kabuki(command: bytes) -> JobWords:
    """Read a line that has the options of execute_remote."""
    try:
        words = shlex.split(os.fsdecode(command))
    except ValueError as error:
        raise BadInput(f"its quotes cannot be read: {error}") from None
    if words[:1] == ["execute_remote"]:
        words = words[1:]
    return read_line(words)
