"""The worker's side of a suspension: write the order into the run dir, and wake the shim."""

from __future__ import annotations

import signal

from grassq.errors import Refused
from grassq.run import processes, rundir
from grassq.run.suspension import notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.run.rundir import RunDirState

#: Why an attempt cannot be suspended.
OLD_SHIM = "its supervisor is of an earlier release, which cannot suspend a job"


def is_in_force(found: RunDirState, number: int) -> bool:
    """Tell whether an order about an attempt is to be carried out; raise Refused if the attempt's shim is unable to.

    It is not if the attempt does not run, or if the run dir has a later order.
    """
    if found.exit is not None or not (found.shim_alive or found.members):
        return False
    if found.shim_alive and not found.suspension.able:
        raise Refused(OLD_SHIM)
    known = found.suspension.order
    return known is None or known[0] <= number


def give(path: str, boot: str, number: int, stop: bool) -> bool:
    """Order that an attempt is stopped or goes on; return whether that is done. Repeat the order until it is."""
    found = rundir.look(path, boot)
    if not is_in_force(found, number):
        return False
    if found.suspension.order != (number, stop):
        notes.write(path, notes.ORDER, number, stop)
    if not found.shim_alive:
        return _signal_left(path, boot, stop)
    if found.suspension.done == (number, stop):
        return True
    if found.shim is not None:
        processes.signal_verified(*found.shim, signal.SIGTERM)
    return False


def _signal_left(path: str, boot: str, stop: bool) -> bool:
    """Stop what a shim that is gone has left, or let it go on; return whether that is done."""
    if not stop:
        processes.signal_all(rundir.look(path, boot).members, signal.SIGCONT)
        return True
    return processes.stop_all(lambda: rundir.look(path, boot).members)
