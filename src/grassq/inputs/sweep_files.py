"""Reads a sweep in a file, with its file of points and the options in its script, as a request has it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from grassq.core.sweeps.sweep import DEFINITION_CHARS_MAX
from grassq.core.sweeps.sweep_file import SWEEP_FILE_BYTES_MAX, read_sweep_file, sweep_lines
from grassq.core.syntax.shell_lines import LINES_MAX
from grassq.core.syntax.sweep import shown
from grassq.errors import BadInput
from grassq.inputs.files import STDIN, read_input
from grassq.inputs.points import read_points_file
from grassq.inputs.script_options import line_words


class SweepInput(NamedTuple):
    """What is sent of a sweep in a file."""

    #: The options of its jobs, as they are typed.
    words: list[str]
    #: The command of each point, and the value of each parameter in each.
    lines: list[str]
    parameters: dict[str, list[str]]
    definition: str


def read_sweep_input(file: str) -> SweepInput:
    """Return a sweep in a file; raise BadInput with the file and the line for whatever is wrong."""
    content = read_input(file, SWEEP_FILE_BYTES_MAX, "put points into a file of points")
    described = read_sweep_file(content, "stdin" if file == STDIN else file)
    points = None if described.points is None else read_points_file(described.points, Path(file).parent)
    lines, parameters = sweep_lines(described, points, file)
    limits = [("--at-once", described.at_once), ("--max-fails", described.max_fails)]
    limited = [word for option, most in limits if most is not None for word in (option, str(most))]
    words = ["--name", described.name, *described.words, *limited]
    command = described.command if isinstance(described.command, str) else shlex.join(described.command)
    words = [*line_words(command, words), *words]
    return SweepInput(words, lines, parameters, content.decode()[:DEFINITION_CHARS_MAX])


def line_text(count: int, lines: Iterator[str], bytes_max: int) -> bytes:
    """Return the lines of a sweep as input of `enqueue --stdin`; raise BadInput for invalid lines or too many."""
    if count > LINES_MAX:
        raise BadInput(f"{count:,} jobs are more than {LINES_MAX:,} at once; take fewer with --n-samples")
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if "\n" in line or "\r" in line:
            raise BadInput(f"a job is one line, but {shown(line)} contains a line break")
        if line.lstrip(" \t")[:1] in ("", "#"):
            raise BadInput(f"{shown(line)} is not a command")
        parts.append(os.fsencode(line))
        size += len(parts[-1]) + 1
        if size > bytes_max:
            raise BadInput(f"the commands take more than {bytes_max:,} bytes; take fewer with --n-samples")
    return b"\n".join(parts)
