"""The commands of a sweep: one for every combination of parameter values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from grassq.core.sweeps.parameters import parameter_columns
from grassq.core.syntax.sweep import Search
from grassq.errors import BadInput
from grassq.net.encoding import new_key
from grassq.sdk.notices import warn
from grassq.sdk.submission import Command, Word, word_bytes


def combinations(
    command: Command, parameters: Mapping[str, Iterable[Word]], samples: int | None, seed: int | None
) -> tuple[Iterator[Command], dict[str, list[str]]]:
    """Return the command filled in with each combination: a list word by word, a string as a whole.

    The second part of the answer has the values of each parameter, command by command.

    The order is that of nested loops; with `samples` or a `seed` it is random.
    """
    if samples is not None and samples < 0:
        raise BadInput(f"samples={samples} is not a number of jobs")
    values = {name: [_text(value) for value in _several(name, some)] for name, some in parameters.items()}
    order = int(new_key(), 16) if seed is None and samples is not None else seed
    words = [command] if isinstance(command, str) else [_text(word) for word in command]
    warn(Search(" ".join(words), values).notes)
    # Every word is filled in by a search of its own; all of them go through the same combinations in the same order.
    filled = zip(*(Search(word, values).lines(order) for word in words), strict=True)
    points = [*islice(Search("", values).values(order), samples)]
    commands = (each[0] if isinstance(command, str) else list(each) for each in islice(filled, samples))
    return commands, parameter_columns([*values], points)


def _several(name: str, values: Iterable[Word]) -> Iterable[Word]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadInput(f"the values of parameter {name!r} are a list, not {values!r}")
    return values


def _text(word: Word) -> str:
    return os.fsdecode(word_bytes(word))
