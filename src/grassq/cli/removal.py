"""What `clean` says: what it would remove, the question before it removes everything, and what is still there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from grassq.cli import job_text, render
from grassq.core.printable import size_text
from grassq.errors import BadInput, GrassError

HOW = "`grass clean --yes` removes all of these; `--older 7d`, a state, a name or ids remove some"
ANSWER_MAX = 100


def is_agreed(would: Mapping[str, Any], *, is_dry: bool, as_json: bool) -> bool:
    """Print what would be removed, and ask whether to; return False if nothing is to be done.

    Raise BadInput without a terminal, on which the question could be asked.
    """
    is_asked = not is_dry and not as_json and os.isatty(0) and os.isatty(2) and would["count"] > 0
    if as_json:
        render.document(would)
    else:
        lines = _lines(would) + (_kept(would.get("keep")) if is_dry else [])
        render.text("".join(f"{render.clean(line)}\n" for line in lines), fd=2 if is_asked else 1)
    if is_dry or not would["count"]:
        return False
    if not is_asked:
        raise BadInput(f"nothing is removed without a question; {HOW}")
    render.text("Remove them? [y/N] ", fd=2)
    if _answer() not in ("y", "yes"):
        raise GrassError("nothing was removed")
    return True


def _lines(would: Mapping[str, Any]) -> list[str]:
    count = would["count"]
    if not count:
        return ["no job to remove"]
    now = job_text.now()
    states = ", ".join(f"{number} {state}" for state, number in sorted(would["states"].items()))
    oldest, newest = job_text.clock(would["oldest"], now), job_text.clock(would["newest"], now)
    when = f"ended {oldest}" if oldest == newest else f"ended from {oldest} to {newest}"
    what = "its log, results and checkpoints" if count == 1 else "their logs, results and checkpoints"
    return [
        f"{_jobs(count)}: {states}; {when}",
        f"{size_text(would['bytes'])} on the daemon's disk: {what} are removed too",
    ]


def _kept(keep: Mapping[str, Any] | None) -> list[str]:
    """Return what the settings remove by themselves; nothing if none is set."""
    if keep is None or not keep["by"]:
        return []
    parts = [f"{_jobs(rule['count'])} by {name} = {rule['set']}" for name, rule in keep["by"].items()]
    size = f" ({size_text(keep['bytes'])})" if keep["count"] else ""
    return [f"by itself the daemon removes {_jobs(keep['count'])} now{size}: {', '.join(parts)}"]


def _answer() -> str:
    try:
        return os.read(0, ANSWER_MAX).decode("utf-8", "replace").strip().lower()
    except OSError:
        return ""


def still_there(count: int, left: Mapping[str, Any]) -> str:
    """Return the sentence about folders that could not be removed yet."""
    size = f" ({size_text(left['bytes'])})" if left.get("bytes") else ""
    return f"the files of {_jobs(count)}{size} are still there, and are removed as soon as possible; {left.get('why')}"


def _jobs(count: int) -> str:
    return f"{count} {'job' if count == 1 else 'jobs'}"
