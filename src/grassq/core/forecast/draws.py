"""Drawn numbers: the same for the same seed and the same words, so that a forecast can be repeated."""

from __future__ import annotations

from math import log

_WORD = (1 << 64) - 1
_UNIT = 2.0**-53


def uniform(*words: int) -> float:
    """Return a number strictly between 0 and 1 that only the words decide."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        state = _mixed((state ^ word) & _WORD)
    return ((state >> 11) + 0.5) * _UNIT


def logit(share: float) -> float:
    """Return the logistic quantile of a share between 0 and 1."""
    return log(share / (1.0 - share))


def _mixed(state: int) -> int:
    """Return the next state of SplitMix64."""
    state = (state + 0x9E3779B97F4A7C15) & _WORD
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
    return state ^ (state >> 31)
