"""How jobs, amounts and times read on a terminal.

Every `grass show` loads this module, so it imports `time` and what imports nothing.
"""

from __future__ import annotations

import time

from grassq.core import outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Longer than any queue lives; keeps sums of times finite.
LONGEST_S = 100 * 365 * 86400.0
#: So many slots of a queue are named in a table.
SLOTS_NAMED = 8

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")


def span(seconds: float) -> str:
    """A length of time in at most two units: `3m12s`."""
    whole = max(0, int(seconds))
    for unit, size, smaller, smaller_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


def now() -> float:
    """This moment, as the functions below want it."""
    return time.time()


def moment(text: str | None) -> float | None:
    """A time from the wire, in seconds since the epoch."""
    if not text:
        return None
    try:
        if len(text) == len("2026-01-01T00:00:00.000Z") and text[-1] == "Z":
            return _seconds(text)
        import datetime

        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _seconds(text: str) -> float:
    # As daemons write it, and without `datetime`, which takes longer to load than a table to draw.
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # Years that begin in March end in the leap day, so that all months before it have their days.
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
    return days * 86400.0 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + float(text[17:23])


def clock(text: str | None, at: float) -> str:
    """A time on this machine's clock, with the day where it is another one than that of `at`."""
    when = moment(text)
    if when is None:
        return ""
    try:
        local, today = time.localtime(when), time.localtime(at)
    except (OverflowError, OSError, ValueError):
        return ""
    if local[:3] == today[:3]:
        return f"{local.tm_hour:02}:{local.tm_min:02}:{local.tm_sec:02}"
    return time.strftime("%b %d %H:%M" if local.tm_year == today.tm_year else "%Y-%m-%d", local)


def took(job: Mapping[str, Any], at: float) -> str:
    """How long a job ran or has been running; nothing while it waits."""
    started, finished = moment(job.get("started")), moment(job.get("finished"))
    if started is None or (finished is None and job.get("state") != "running"):
        return ""
    return span((at if finished is None else finished) - started)


def command(job: Mapping[str, Any]) -> str:
    """The command as one would type it."""
    words = [str(word) for word in job.get("command") or []]
    return " ".join(words if job.get("shell") else map(_quoted, words))


def _quoted(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def amounts(request: Mapping[str, Any] | None) -> str:
    """`gpu=0.5 cpu=4`."""
    return " ".join(f"{name}={_amount(value)}" for name, value in (request or {}).items())


def holds(allocation: Mapping[str, Any] | None) -> str:
    """What a job holds: `gpu:0,1 cpu=4`, a share as `gpu:0(0.5)`."""
    return " ".join(_held(name, value) for name, value in (allocation or {}).items())


def slots(each: Sequence[Mapping[str, Any]]) -> str:
    """The slots of a queue by name, `slots 0,1 2`; their number where they are many."""
    if len(each) > SLOTS_NAMED:
        return f"{len(each)} slots"
    return " ".join(["slots", *(str(slot.get("name") or "-") for slot in each)]) if each else "no slot"


def result(job: Mapping[str, Any]) -> str:
    """Return how a job ended, in a word or two; "" if it has not ended."""
    state = job.get("state")
    if state == "succeeded":
        return "ok"
    if state not in ("failed", "cancelled"):
        return ""
    return outcome.in_words(job.get("outcome"), job.get("exit_code"), job.get("signal"), short=True)


def _held(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        return f"{name}={_amount(value)}"
    return f"{name}:" + ",".join(id_ if share == 1 else f"{id_}({_amount(share)})" for id_, share in value.items())


def _amount(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, dict):
        return ",".join(f"{key}:{_amount(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ",".join(_amount(each) for each in value)
    return str(value)
