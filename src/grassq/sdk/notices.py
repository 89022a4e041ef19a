"""Warnings to the program that uses the SDK, shown at the program's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from grassq.core.printable import printable

#: Modules whose lines are not the program's; `contextlib` calls back into the SDK.
_OWN = ("grassq", "contextlib")


class CannotStartWarning(UserWarning):
    """A job that is waited for cannot start until a person does something.

    `warnings.simplefilter("error", grassq.CannotStartWarning)` makes an exception of it.
    """


def warn(texts: Iterable[str], category: type[Warning] = UserWarning) -> None:
    """Warn the program of each text."""
    for text in texts:
        warnings.warn(printable(text), category, stacklevel=_level())


def warn_cannot_start(texts: Iterable[str]) -> None:
    """Warn the program of jobs that cannot start."""
    warn(texts, CannotStartWarning)


def _level() -> int:
    """Return how many calls up the program's own line is; from Python 3.12 on `skip_file_prefixes` does this."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OWN:
        frame, level = frame.f_back, level + 1
    return level
