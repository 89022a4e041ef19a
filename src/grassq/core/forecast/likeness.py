"""Which jobs are like each other: the same sweep, the same shape of command, or the same queue and request."""

from __future__ import annotations

import re
from typing import Literal

from grassq.core.model import Job

#: From the most like to the least like; `any` is every job, and `progress` is what a job says of itself.
Level = Literal["progress", "sweep", "command", "request", "any"]
IN_WORDS: dict[Level, str] = {
    "progress": "its progress bar",
    "sweep": "same name",
    "command": "same shape of command",
    "request": "same queue and request",
    "any": "any job",
}
#: What is looked at of a command.
WORDS_MAX = 40
BYTES_MAX = 400

#: A kind of job: the level and what its jobs have in common.
Kind = tuple[str, ...]

_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_SCRIPT = re.compile(rb"\.(?:py|sh|jl|r|pl|rb|js|m|ipynb)$", re.IGNORECASE)


def kinds_of(job: Job) -> list[tuple[Level, Kind]]:
    """Return the kinds that a job belongs to, the most like first."""
    spec = job.spec
    request = ",".join(f"{name}={amount}" for name, amount in spec.request)
    found: list[tuple[Level, Kind]] = []
    if job.name is not None:
        found.append(("sweep", ("sweep", job.name)))
    shape = command_shape(spec.command).decode("latin-1")
    if shape:
        found.append(("command", ("command", spec.queue, shape)))
    return [*found, ("request", ("request", spec.queue, request)), ("any", ("any",))]


def command_shape(command: tuple[bytes, ...]) -> bytes:
    """Return a command without what usually differs from run to run: numbers, and where files are."""
    # A line for a shell is one word.
    words = command[0][: 4 * BYTES_MAX].split() if len(command) == 1 else command[:WORDS_MAX]
    return b" ".join(_plain(word[:BYTES_MAX], at) for at, word in enumerate(words[:WORDS_MAX]))[:BYTES_MAX]


def _plain(word: bytes, at: int) -> bytes:
    name, equals, value = word.partition(b"=")
    if equals and name.startswith(b"-"):
        return name + b"=" + _plain(value, WORDS_MAX)
    if b"/" in word:
        last = word.rpartition(b"/")[2]
        # The program and its script say what runs; other paths say on what.
        word = last if at == 0 or _SCRIPT.search(last) else b"/"
    return _NUMBER.sub(b"#", word)
