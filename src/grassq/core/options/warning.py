"""The warning of a job before its time limit: how long before, and by which signal."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.names import shown
from grassq.core.options.signal_names import SIGNALS, signal_number
from grassq.core.printable import exact_span
from grassq.core.syntax.durations import DURATION_MAX_S, duration_s
from grassq.errors import BadInput

#: The signal of a warning that names none.
USUAL = "USR1"
#: The signals that no process can handle.
_NOT_HANDLED = (SIGNALS["KILL"], SIGNALS["STOP"])
_NAMES = {number: name for name, number in SIGNALS.items()}


class Warn(Struct, frozen=True):
    """The processes of a job get a signal some time before its time limit."""

    #: Seconds before the limit.
    before_s: float
    #: The name of the signal without SIG, or the number of a signal without a name.
    signal: str = USUAL

    @property
    def number(self) -> int:
        """The number of the signal."""
        return signal_number(self.signal) or 0

    @property
    def typed(self) -> str:
        """The warning as it is typed."""
        return f"{exact_span(self.before_s)}:{self.signal}"


def read_warn(text: str, what: str) -> Warn:
    """Read `60s` or `60s:TERM`; raise BadInput that names `what`."""
    before, colon, signal = text.partition(":")
    return checked_warn(duration_s(before, what, unit="s"), signal if colon else USUAL, what)


def checked_warn(before_s: float, signal: str, what: str) -> Warn:
    """Return a warning; raise BadInput that names `what` for a signal that is none, or a time that is none."""
    if not 0 < before_s <= DURATION_MAX_S:
        raise BadInput(f"{what} needs a time before the limit, such as 60s, not {before_s:g}s")
    number = signal_number(signal)
    if number is None:
        raise BadInput(f"{what} needs a signal such as USR1, TERM or 10, not {shown(signal)}")
    if number in _NOT_HANDLED:
        raise BadInput(f"{what}: no process can handle {_NAMES[number]}; use USR1, USR2 or TERM")
    return Warn(before_s, _NAMES.get(number, str(number)))
