"""Names of signals, as Linux numbers them."""

from __future__ import annotations

_NAMES = """
HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ
VTALRM PROF WINCH IO PWR SYS
"""
#: Every signal that has a name, without SIG.
SIGNALS = {name: number for number, name in enumerate(_NAMES.split(), start=1)}
_ALIASES = {"IOT": "ABRT", "CLD": "CHLD", "POLL": "IO"}
#: The largest number of a signal.
SIGNAL_MAX = 64


def signal_number(text: str) -> int | None:
    """Return the number of a signal: `USR1`, `SIGUSR1` or `10`; None if there is no such signal."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(SIGNAL_MAX)):
        return int(text) if 1 <= int(text) <= SIGNAL_MAX else None
    name = text.upper().removeprefix("SIG")
    return SIGNALS.get(_ALIASES.get(name, name))
