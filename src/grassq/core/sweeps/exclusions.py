"""Points that a sweep leaves out: `lr=0.1 bs=32` is each point that has both values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence

from grassq.core.names import shown
from grassq.core.sweeps.parameters import is_numeric
from grassq.errors import BadInput

#: How many exclusions a sweep has.
EXCLUSIONS_MAX = 1000

#: The name and the value of each parameter that a point must have to be left out.
Exclusion = tuple[tuple[str, str], ...]


def read_exclusion(text: str, names: Collection[str]) -> Exclusion:
    """Read `NAME=VALUE NAME=VALUE`; `names` are the parameters of the sweep."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"--exclude {shown(text)} cannot be split into words: {str(error).lower()}") from None
    pairs = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadInput(f'--exclude {shown(text)} needs NAME=VALUE, as in --exclude "lr=0.1 bs=32"')
        if name not in names:
            raise BadInput(f"--exclude {shown(text)}: there is no parameter {shown(name)}; {_known(names)}")
        pairs.append((name, value))
    if not pairs:
        raise BadInput('--exclude needs NAME=VALUE, as in --exclude "lr=0.1 bs=32"')
    return tuple(pairs)


def _known(names: Collection[str]) -> str:
    return f"there are {', '.join(names)}" if names else "the sweep has none"


def leaves_out(texts: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return what tells whether a point, its values in the order of `names`, is left out by one of these texts."""
    if len(texts) > EXCLUSIONS_MAX:
        raise BadInput(f"--exclude is given {len(texts):,} times; {EXCLUSIONS_MAX:,} times is the most")
    places = {name: place for place, name in enumerate(names)}
    wanted = [[(places[name], value) for name, value in read_exclusion(text, names)] for text in texts]

    def is_left_out(point: Sequence[str]) -> bool:
        return any(all(_same(point[place], value) for place, value in each) for each in wanted)

    return is_left_out


def _same(one: str, other: str) -> bool:
    """Tell whether two values are the same text or the same number: 0.1 is 1e-1."""
    return one == other or (is_numeric(one) and is_numeric(other) and float(one) == float(other))
