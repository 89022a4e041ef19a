"""sweep: enqueues a command once for every combination of parameter values."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice

from grassq.cli import render
from grassq.cli.enqueue import BYTES_MAX, enqueue
from grassq.cli.help import text_of
from grassq.cli.typed import take_option
from grassq.core.sweeps.parameters import parameter_columns
from grassq.core.syntax import options, sweep
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.core.syntax.shell_lines import LINES_MAX
from grassq.errors import BadInput
from grassq.net.encoding import new_key

DRY_RUN = "--dry-run"
#: Lines of a dry run per write.
PRINTED_AT_ONCE = 1000
#: The one-letter options; like `--`, each of them ends the values of a parameter.
_SHORTS = ("-h", *(word.decode() for word in options.ENQUEUE if not word.startswith(b"--")))
_NOT_HERE = {
    "--stdin": "--stdin cannot go with a sweep, whose commands come from TEMPLATE",
    "--sync": "--sync follows one job, but a sweep has many; `grass wait NAME` waits for all of them",
}


def words(name: str, argv: list[str]) -> int:
    """Enqueue all lines of a parameter search, or none of them."""
    typed = sweep.read(argv, _width, _SHORTS)
    if typed.help:
        return render.text(text_of(name))
    search = typed.search()
    seed = typed.order(lambda: int(new_key(), 16))
    lines = search.lines(seed)
    if DRY_RUN in typed.rest:
        render.notes(search.notes)
        return _print(lines)
    broker, rest = take_option("--broker", typed.rest)
    text = _text(search, lines)
    render.notes(search.notes)
    return enqueue(["--stdin", *rest], broker, name, text, parameters=_parameters(search, seed, BYTES_MAX - len(text)))


def _width(word: str) -> int:
    """Return how many words an option of `enqueue` takes; the daemon reads its value."""
    if word in _NOT_HERE:
        raise BadInput(_NOT_HERE[word])
    if word == DRY_RUN or "=" in word:
        return 1
    raw = os.fsencode(word)
    if raw not in options.ENQUEUE and options.resource_of(raw) not in COMMON_RESOURCES:
        raise options.unknown(raw, options.ENQUEUE)
    return options.width(raw, options.ENQUEUE)


def _print(lines: Iterator[str]) -> int:
    while some := list(islice(lines, PRINTED_AT_ONCE)):
        render.write(os.fsencode("\n".join([*some, ""])))
    return 0


def _parameters(search: sweep.Search, seed: int | None, bytes_max: int) -> str:
    """Return the values of each parameter line by line, in JSON; nothing if they take too many bytes."""
    columns = parameter_columns([*search.parameters], [*search.values(seed)])
    text = json.dumps(columns) if columns else ""
    return text if len(text) <= bytes_max else ""


def _text(search: sweep.Search, lines: Iterator[str]) -> bytes:
    """Return the lines as input of `enqueue --stdin`; raise BadInput for invalid lines or too many."""
    if search.count > LINES_MAX:
        raise BadInput(f"{search.count:,} jobs are more than {LINES_MAX:,} at once; take fewer with --n-samples")
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if "\n" in line or "\r" in line:
            raise BadInput(f"a job is one line, but {sweep.shown(line)} contains a line break")
        if line.lstrip(" \t")[:1] in ("", "#"):
            raise BadInput(f"{sweep.shown(line)} is not a command")
        parts.append(os.fsencode(line))
        size += len(parts[-1]) + 1
        if size > BYTES_MAX:
            raise BadInput(f"the commands take more than {BYTES_MAX:,} bytes; take fewer with --n-samples")
    return b"\n".join(parts)
