"""How an attempt ended, in words and as an exit code: for the job's story, the views, and every client.

Every `grass show` loads this module, so it imports nothing. `model.Outcome` has the same outcomes as an enumeration.
"""

from __future__ import annotations

#: Every outcome and the exit code of `grass run` for it; None where the command's own exit code or signal counts.
EXIT_CODES: dict[str, int | None] = {
    "exited": None,
    "signalled": None,
    "spawn_failed": 127,
    "lost": 1,
    "unknown": 1,
    "cancelled": 1,
    "dependency_failed": 1,
    "timed_out": 124,
}
#: Added to the number of the signal that ended a command, as shells do.
SIGNAL_BASE = 128


def in_words(outcome: str | None, code: int | None, signal: int | None, *, short: bool = False) -> str:
    """Return how an attempt ended: `exit code 3` (short: `exit 3`), `signal 9`, `timed out`; "" if not known."""
    if outcome == "timed_out":
        # Its code or signal says only how the command took the end of its time.
        return "timed out"
    if code is not None:
        return f"exit {code}" if short else f"exit code {code}"
    if signal is not None:
        return f"signal {signal}"
    return str(outcome or "").replace("_", " ")


def exit_code(outcome: str | None, code: int | None, signal: int | None) -> int:
    """Return the exit code that stands for an attempt: 128 + n for signal n, 127 if the command could not start.

    An attempt that was ended by a limit has 124, as `timeout` says it.
    """
    given = EXIT_CODES.get(outcome or "")
    if given is not None:
        return given
    if signal is not None:
        return SIGNAL_BASE + signal
    return 1 if code is None else code


def is_own_end(outcome: str | None) -> bool:
    """Return whether the command ended by itself, so that its own output tells why."""
    return EXIT_CODES.get(outcome or "") is None
