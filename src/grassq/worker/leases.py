"""The worker's side of leases: how long an attempt may run without an answer from the broker.

A lease counts from the moment a ping was sent, on this machine's own clock, once the broker has answered the ping. The
broker counts the whole length from when it received the ping, which was later, so the attempt has ended by then.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from grassq.run.rundir import Lease
from grassq.worker.attempts import HeldAttempt
from grassq.worker.machine import AttemptProcesses

log = logging.getLogger(__name__)

#: The part of a lease that the worker uses; the rest is for ending the attempt (run.lease_timer) and clock drift.
LEASE_PART = 0.75
#: A lease is written again when its end moves by at least this part of its length.
RENEW_PART = 0.1


class Leases:
    """Grants and renews the leases of held attempts, from the broker's answers to pings."""

    def __init__(self, boottime: Callable[[], float], machine: AttemptProcesses) -> None:
        self._boottime = boottime
        self._machine = machine
        self._confirmed = -math.inf

    def confirm(self, at: float) -> bool:
        """Note that the broker has answered a ping sent at this time; return whether it is the latest so far."""
        # No ping was sent in the future, whatever an answer says.
        at = min(at, self._boottime())
        is_news = at > self._confirmed
        self._confirmed = max(self._confirmed, at)
        return is_news

    def grant(self, held: HeldAttempt) -> bool:
        """Set the lease of an attempt if its order asks for one; return False if the lease would be over already."""
        assert held.start is not None
        length_s = held.start.placement.lease_s
        if length_s is None:
            return True
        lease = Lease(self._confirmed + LEASE_PART * length_s, length_s)
        if self._is_over(lease):
            log.warning("start_ignored job=%s attempt=%s: the broker has not answered lately", *held.id)
            return False
        held.lease = lease
        return True

    def renew(self, held: HeldAttempt) -> None:
        """Extend a lease if it is worth writing; raise OSError to try again later.

        A lease that was over at the last answered ping stays over: the attempt may run elsewhere by now.
        """
        old = held.lease
        if old is None or held.end is not None:
            return
        until = self._confirmed + LEASE_PART * old.length_s
        if self._confirmed >= old.until or until - old.until < RENEW_PART * old.length_s:
            return
        lease = Lease(until, old.length_s)
        if held.laid_out:
            self._machine.lease(held.id, lease)
        held.lease = lease

    def has_lapsed(self, held: HeldAttempt) -> bool:
        """Return whether an unclaimed attempt must wait until the broker orders it again."""
        return held.unclaimed and held.lease is not None and self._is_over(held.lease)

    def _is_over(self, lease: Lease) -> bool:
        return self._boottime() >= lease.until
