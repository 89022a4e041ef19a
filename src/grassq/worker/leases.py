"""The worker's side of leases: how long what it runs may go on without a word from the broker.

A lease counts from the moment a ping was sent, on this machine's own clock, and only once the broker has answered it.
The broker counts the whole length from when it heard that ping, which was later; so what is here is gone by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

#: What the worker uses of a lease; the rest is for ending the attempt (run.lease_timer) and for clocks that differ.
LEASE_PART = 0.75
#: A lease is written again when that moves its end by at least this part of its length.
RENEW_PART = 0.1


class Lease(Struct, frozen=True):
    """Until when an attempt may run, on CLOCK_BOOTTIME, and the whole length the broker counts."""

    until: float
    length_s: float


class Leases:
    """What the broker's answers allow."""

    def __init__(self, boottime: Callable[[], float]) -> None:
        self._boottime = boottime
        self._confirmed = -math.inf

    def confirm(self, at: float) -> bool:
        """The broker has answered a ping that was sent at this moment; whether that is news."""
        # Nothing was sent in the future, whatever an answer says.
        at = min(at, self._boottime())
        is_news = at > self._confirmed
        self._confirmed = max(self._confirmed, at)
        return is_news

    def grant(self, length_s: float) -> Lease | None:
        """A lease of this length for what starts now; None when it would be over already."""
        lease = Lease(self._confirmed + LEASE_PART * length_s, length_s)
        return None if self.is_over(lease) else lease

    def renewed(self, lease: Lease) -> Lease | None:
        """The lease to write in place of this one, None if this one stands.

        One that was over when the broker last heard us stays over: the attempt may run elsewhere by now.
        """
        until = self._confirmed + LEASE_PART * lease.length_s
        if self._confirmed >= lease.until or until - lease.until < RENEW_PART * lease.length_s:
            return None
        return Lease(until, lease.length_s)

    def is_over(self, lease: Lease) -> bool:
        """Whether what has this lease may not run any more."""
        return self._boottime() >= lease.until
