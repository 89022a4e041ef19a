"""How jobs, amounts and times read on a terminal."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

#: Longer than any queue lives; keeps sums of times finite.
LONGEST_S = 100 * 365 * 86400.0


def span(seconds: float) -> str:
    """A length of time in at most two units: `3m12s`."""
    whole = max(0, int(seconds))
    for unit, size, smaller, smaller_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"


def moment(text: str | None) -> datetime.datetime | None:
    """A time from the wire."""
    if not text:
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def clock(text: str | None, now: datetime.datetime) -> str:
    """A time on this machine's clock, with the day where it is another one."""
    when = moment(text)
    if when is None:
        return ""
    local = when.astimezone()
    if local.date() == now.astimezone().date():
        return local.strftime("%H:%M:%S")
    return local.strftime("%b %d %H:%M" if local.year == now.astimezone().year else "%Y-%m-%d")


def took(job: Mapping[str, Any], now: datetime.datetime) -> str:
    """How long a job ran or has been running; nothing while it waits."""
    started, finished = moment(job.get("started")), moment(job.get("finished"))
    if started is None or (finished is None and job.get("state") != "running"):
        return ""
    return span(((finished or now) - started).total_seconds())


def command(job: Mapping[str, Any]) -> str:
    """The command as one would type it."""
    words = [str(word) for word in job.get("command") or []]
    return " ".join(words) if job.get("shell") else shlex.join(words)


def amounts(request: Mapping[str, Any] | None) -> str:
    """`gpu=0.5 cpu=4`."""
    return " ".join(f"{name}={_amount(value)}" for name, value in (request or {}).items())


def holds(allocation: Mapping[str, Any] | None) -> str:
    """What a job holds: `gpu:0,1 cpu=4`, a share as `gpu:0(0.5)`."""
    return " ".join(_held(name, value) for name, value in (allocation or {}).items())


def result(job: Mapping[str, Any]) -> str:
    """How a job ended, in a word or two."""
    state, outcome = job.get("state"), job.get("outcome")
    if state == "succeeded":
        return "ok"
    if state not in ("failed", "cancelled"):
        return ""
    if outcome in ("spawn_failed", "lost", "unknown"):
        return str(outcome).replace("_", " ")
    if job.get("signal"):
        return f"signal {job['signal']}"
    if job.get("exit_code") is not None:
        return f"exit {job['exit_code']}"
    return str(outcome or "").replace("_", " ")


def own_exit_code(job: Mapping[str, Any]) -> int:
    """What `run` ends with: as the job did, else 127 for what could not be started, 1 for what nobody knows."""
    state, code, signal = job.get("state"), job.get("exit_code"), job.get("signal")
    if state == "succeeded":
        return 0
    if state == "cancelled":
        return 1
    if job.get("outcome") == "spawn_failed":
        return 127
    if signal:
        return 128 + int(signal)
    return int(code) if code else 1


def _held(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"{name}={_amount(value)}"
    return f"{name}:" + ",".join(id_ if share == 1 else f"{id_}({_amount(share)})" for id_, share in value.items())


def _amount(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{_amount(each)}" for key, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_amount(each) for each in value)
    return str(value)
