"""Formats jobs, amounts and times for a terminal.

Every `grass show` loads this module, so it imports next to nothing.
"""

from __future__ import annotations

import time

from grassq.core import outcome
from grassq.core.printable import exact_span
from grassq.core.printable import span as span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: 100 years: stands for no time limit in sums of times.
LONGEST_S = 100 * 365 * 86400.0
#: A table names at most this many slots of a queue.
SLOTS_NAMED = 8

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")
#: How people write a time for `since_s`, in the help of commands.
SINCE_HELP = "10m, 2d, 14:30 or 2026-01-31T14:30"


def now() -> float:
    """Return the current time in seconds since the epoch."""
    return time.time()


def pairs(values: Mapping[str, Any] | None) -> str:
    """Return tags or parameters as they are typed: NAME=VALUE."""
    return " ".join([f"{name}={value}" for name, value in (values or {}).items()])


def seconds(text: str | None) -> float | None:
    """Return an ISO 8601 time in seconds since the epoch; None if there is none."""
    if not text:
        return None
    try:
        if len(text) == len("2026-01-01T00:00:00.000Z") and text[-1] == "Z":
            return _fast_seconds(text)
        import datetime

        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _fast_seconds(text: str) -> float:
    # The format that daemons write. Loading `datetime` would take longer than drawing a table.
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # A year counted from March ends with the leap day, so the days before each month are fixed.
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
    return days * 86400.0 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + float(text[17:23])


def since_s(text: str, at: float, what: str = "--since") -> float:
    """Return how many seconds before `at` a typed time is: `10m`, `14:30` today or yesterday, or a date with a time."""
    import re

    from grassq.core.syntax.durations import DURATION_MAX_S, duration_s
    from grassq.errors import BadInput

    is_date = re.match(r"[0-9]{4}-", text) is not None
    if not is_date and not re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", text):
        return duration_s(text, what)
    import datetime

    typed = repr(text[:40])
    try:
        if is_date:
            ago = at - datetime.datetime.fromisoformat(text).timestamp()
        else:
            today = datetime.datetime.fromtimestamp(at)
            hour, minute, second = [*map(int, text.split(":")), 0][:3]
            when = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
            ago = at - (when if when <= today else when - datetime.timedelta(days=1)).timestamp()
    except (ValueError, OverflowError, OSError):
        advice = "write a time as 2026-01-31T14:30" if is_date else "there is no such time"
        raise BadInput(f"{what} {typed}: {advice}") from None
    if ago < 0:
        raise BadInput(f"{what} {typed} is in the future")
    if ago > DURATION_MAX_S:
        raise BadInput(f"{what} may be at most {DURATION_MAX_S / 86_400:g}d ago, not {typed}")
    return ago


def clock(text: str | None, at: float) -> str:
    """Return a time in the local time zone, with the date if the day differs from that of `at`."""
    when = seconds(text)
    if when is None:
        return ""
    try:
        local, today = time.localtime(when), time.localtime(at)
    except (OverflowError, OSError, ValueError):
        return ""
    if local[:3] == today[:3]:
        return f"{local.tm_hour:02}:{local.tm_min:02}:{local.tm_sec:02}"
    return time.strftime("%b %d %H:%M" if local.tm_year == today.tm_year else "%Y-%m-%d", local)


def ago(text: str | None, at: float) -> str:
    """Return a time relative to `at`: `3 min ago`, `in 2 h`; "" if there is none."""
    when = seconds(text)
    if when is None:
        return ""
    distance = abs(at - when)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if distance >= size or unit == "s":
            said = f"{int(distance // size)} {unit}"
            return f"{said} ago" if when <= at else f"in {said}"
    return ""


def took(job: Mapping[str, Any], at: float) -> str:
    """Return how long a job ran or has been running; "" if it has not started."""
    ran_s = seconds_run(job, at)
    if ran_s is None or (job.get("finished") is None and job.get("state") != "running"):
        return ""
    return span(ran_s)


def seconds_run(job: Mapping[str, Any], at: float) -> float | None:
    """Return for how many seconds a job ran, without the time it was suspended; None if it has not started."""
    started, finished = seconds(job.get("started")), seconds(job.get("finished"))
    if started is None:
        return None
    stopped = seconds(job.get("suspended_since")) if finished is None else finished
    suspended_s = job.get("suspended_s")
    return (at if stopped is None else stopped) - started - (suspended_s if isinstance(suspended_s, float | int) else 0)


def command(job: Mapping[str, Any]) -> str:
    """Return the command as typed in a shell."""
    words = [str(word) for word in job.get("command") or []]
    return " ".join(words if job.get("shell") else map(_quoted, words))


def _quoted(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def amounts(request: Mapping[str, Any] | None) -> str:
    """Return amounts as `gpu=0.5 cpu=4`, or `nothing`."""
    return " ".join(f"{name}={_amount(value)}" for name, value in (request or {}).items()) or "nothing"


def holds(allocation: Mapping[str, Any] | None) -> str:
    """Return an allocation as `gpu:0,1 cpu=4`, with a share as `gpu:0(0.5)`."""
    return " ".join(_held(name, value) for name, value in (allocation or {}).items())


def slots(each: Sequence[Mapping[str, Any]]) -> str:
    """Return the slots of a queue as `slots 0,1 2`; only their number above SLOTS_NAMED."""
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


def limits(job: Mapping[str, Any]) -> str:
    """Return the limits of a job's time, such as `2h, USR1 1m before, 30m without output`; "" if it has none."""
    limit_s, warn_s, idle_s = (job.get(name) for name in ("time_limit_s", "warn_s", "idle_limit_s"))
    limit_s = job.get("effective_time_limit_s") or limit_s
    parts = [
        exact_span(limit_s) if limit_s else "",
        f"{job.get('warn_signal')} {exact_span(warn_s)} before" if warn_s else "",
        f"{exact_span(idle_s)} without output" if idle_s else "",
    ]
    return ", ".join(filter(None, parts))


def queue_limits(queue: Mapping[str, Any]) -> str:
    """Return the limits of a queue as `gpu:0,1 cpu=4 time=2h time<=1d`, or its slots."""
    amounts = slots(queue["slots"]) if queue.get("slots") else holds(queue.get("limits"))
    usual, most = queue.get("time_limit_s"), queue.get("max_time_limit_s")
    times = [f"time={exact_span(usual)}" if usual else "", f"time<={exact_span(most)}" if most else ""]
    return " ".join(filter(None, [amounts, *times]))


def files(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a job that are about files and its environment, as lines of `show`."""
    given = job.get("files") or {}
    sent = [tree["folder"] + (f":{tree['dest']}" if tree["dest"] else "") for tree in given.get("send", ())]
    to = f" to {given['fetch_to']}" if given.get("fetch_to") else ""
    return {
        "sent": ", ".join(sent),
        "fetched": ", ".join(given.get("fetch", ())) + to,
        "env from": given.get("env_from", ""),
        "python": given.get("python", ""),
        "setup": given.get("setup", ""),
        "output": job.get("output") or "",
    }


def after(job: Mapping[str, Any]) -> str:
    """Return the jobs that a job starts after, as they were asked for: `after 1-3,5; after-any 7`."""
    names = {"ok": "after", "any": "after-any", "fail": "after-fail"}
    found = job.get("after") or {}
    return "; ".join(f"{names.get(each, each)} {','.join(map(str, ids))}" for each, ids in found.items())


def attempts(job: Mapping[str, Any]) -> str:
    """Return the number of the last attempt, of how many it may have, and how the earlier ones ended."""
    last, tries = job.get("attempt"), job.get("tries") or 1
    text = str(last) if tries == 1 or last is None else f"{last} of {tries}"
    earlier = (job.get("attempts") or [])[:-1]
    ends = [
        f"{each['number']}: {outcome.in_words(each.get('outcome'), each.get('exit_code'), each.get('signal'))}"
        for each in earlier
    ]
    return f"{text} ({'; '.join(ends)}; `grass log --attempt N {job.get('id')}`)" if ends else text
