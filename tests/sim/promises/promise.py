"""A promise that must hold."""

from __future__ import annotations


class Broken(AssertionError):
    """A promise does not hold."""


def demand(holds: bool, promise: str) -> None:
    """A promise must hold, also under `python -O`."""
    if not holds:
        raise Broken(promise)
