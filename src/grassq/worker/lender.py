"""Who gives attempts their leases, and renews them in their run dirs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from grassq.worker.attempts import HeldAttempt, Phase
from grassq.worker.leases import Leases
from grassq.worker.machine import AttemptProcesses

log = logging.getLogger(__name__)


class Lender:
    """Leases of the attempts a worker holds."""

    def __init__(self, boottime: Callable[[], float], machine: AttemptProcesses) -> None:
        self._leases = Leases(boottime)
        self._machine = machine

    def confirm(self, at: float) -> bool:
        """The broker has answered a ping sent at this moment of `boottime`; whether leases may last longer now."""
        return self._leases.confirm(at)

    def grant(self, holding: HeldAttempt) -> bool:
        """Give an attempt its lease, if it is to have one; False when that would be over already."""
        assert holding.start is not None
        if holding.start.placement.lease_s is None:
            return True
        holding.lease = self._leases.grant(holding.start.placement.lease_s)
        if holding.lease is None:
            log.warning("start_ignored job=%s attempt=%s: the broker has not answered lately", *holding.id)
        return holding.lease is not None

    def renew(self, holding: HeldAttempt) -> None:
        """Let a lease last longer, if that is worth writing; OSError: not now."""
        if holding.lease is None or holding.end is not None:
            return
        lease = self._leases.renewed(holding.lease)
        if lease is not None:
            if holding.laid_out:
                self._machine.lease(holding.id, lease)
            holding.lease = lease

    def has_lapsed(self, holding: HeldAttempt) -> bool:
        """Whether an attempt nobody has claimed has to wait for the broker to order it anew."""
        return holding.phase is Phase.ORDERED and holding.lease is not None and self._leases.is_over(holding.lease)
