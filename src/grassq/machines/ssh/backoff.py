"""When to try a login again: soon while the network is away, later where a server turns us away."""

from __future__ import annotations

import math
from collections.abc import Callable

from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.transport import LinkLost

#: The shortest and the longest wait in seconds after a lost connection, or where the network or the server is away.
AWAY_S = (1.0, 60.0)
#: The same where a server turns us away: servers count tries that come within five seconds, and shut the address out.
TURNED_AWAY_S = (5.0, 120.0)
_DOUBLINGS_MAX = 16


class Backoff:
    """Spreads tries: each failure doubles the wait, and chance keeps a hundred machines from trying at once."""

    def __init__(self, uniform: Callable[[float, float], float]) -> None:
        """`uniform` returns a number between two, by chance."""
        self._uniform = uniform

    def next_s(self, failures: int, failure: LoginFailed | LinkLost) -> float:
        """Return how long to wait after a failure and this many before it; infinite if a person has to act first."""
        if isinstance(failure, LoginFailed) and failure.needs_person:
            return math.inf
        turned_away = isinstance(failure, LoginFailed) and failure.is_turned_away
        shortest, longest = TURNED_AWAY_S if turned_away else AWAY_S
        span = min(longest, shortest * 2.0 ** min(failures + 1, _DOUBLINGS_MAX))
        return self._uniform(span / 2, span)
