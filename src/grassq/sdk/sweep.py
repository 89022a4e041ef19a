"""The commands of a sweep: one for every combination of parameter values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from grassq.core.sweeps.arrays import TASKS_MAX, read_array
from grassq.core.sweeps.grid import GridSearch
from grassq.core.sweeps.parameters import parameter_columns
from grassq.core.sweeps.ranges import expanded
from grassq.core.syntax.sweep import Search
from grassq.errors import BadInput
from grassq.net.encoding import new_key
from grassq.sdk.notices import warn
from grassq.sdk.submission import Command, Word, word_bytes


def combinations(
    command: Command,
    parameters: Mapping[str, Iterable[Word]],
    samples: int | None,
    seed: int | None,
    exclude: str | Iterable[str] = (),
) -> tuple[Iterator[Command], dict[str, list[str]]]:
    """Return the command filled in with each combination: a list word by word, a string as a whole.

    The second part of the answer has the values of each parameter, command by command.

    The order is that of nested loops; with `samples` or a `seed` it is random.
    """
    if samples is not None and samples < 0:
        raise BadInput(f"samples={samples} is not a number of jobs")
    values = {name: _values(name, some) for name, some in parameters.items()}
    left_out = [exclude] if isinstance(exclude, str) else [*exclude]
    order = int(new_key(), 16) if seed is None and samples is not None else seed
    words = [command] if isinstance(command, str) else [_text(word) for word in command]

    def search(text: str) -> Search:
        return GridSearch(text, values, exclude=left_out) if left_out else Search(text, values)

    warn(search(" ".join(words)).notes)
    # Every word is filled in by a search of its own; all of them go through the same combinations in the same order.
    filled = zip(*(search(word).lines(order) for word in words), strict=True)
    points = [*islice(search("").values(order), samples)]
    commands = (each[0] if isinstance(command, str) else list(each) for each in islice(filled, samples))
    return commands, parameter_columns([*values], points)


def sweep_members(at_once: int | None, max_fails: int | None) -> dict[str, object]:
    """Return what is sent of a sweep besides its jobs."""
    limits = {"at_once": at_once, "max_fails": max_fails}
    for name, most in limits.items():
        if most is not None and not 1 <= most <= TASKS_MAX:
            raise BadInput(f"{name}={most} is not a number from 1 to {TASKS_MAX:,}")
    return {"sweep": {name: most for name, most in limits.items() if most is not None}}


def array_members(
    array: str | Mapping[str, Iterable[Word]], at_once: int | None, max_fails: int | None
) -> dict[str, object]:
    """Return what is sent of an array or a list besides its one command."""
    more = sweep_members(at_once, max_fails)
    if isinstance(array, str):
        read_array(array)
        return {**more, "array": array}
    return {**more, "each": {name: [_text(value) for value in _several(name, some)] for name, some in array.items()}}


def _values(name: str, values: Iterable[Word] | str) -> list[str]:
    """Return the values of a parameter: those of a list, or of a range as text."""
    if isinstance(values, str) and (found := expanded([values], name)) != [values]:
        return found
    return [_text(value) for value in _several(name, values)]


def _several(name: str, values: Iterable[Word]) -> Iterable[Word]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadInput(f"the values of parameter {name!r} are a list, not {values!r}")
    return values


def _text(word: Word) -> str:
    return os.fsdecode(word_bytes(word))
