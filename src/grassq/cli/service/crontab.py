"""The crontab of this user: one line of ours, the other lines as they are."""

from __future__ import annotations

from pathlib import Path

from grassq.cli.service.tools import NOT_RUN, ToolResult, run
from grassq.cli.service.unit import Starter, cron_line, cron_mark
from grassq.errors import Refused

#: What the program is called that runs the lines.
CRONS = frozenset({"cron", "crond", "fcron", "dcron", "anacron", "cronie"})


def is_there() -> bool:
    """Tell whether this user may have a crontab."""
    return _reads(_list())


def installed(starter: Starter) -> str | None:
    """Return our line; None if there is none."""
    mark = cron_mark(starter).encode("utf-8", "surrogateescape")
    found = [line for line in _lines() if line.rstrip().endswith(mark)]
    return found[0].decode("utf-8", "replace").strip() if found else None


def write(starter: Starter) -> bool:
    """Write our line; return False if it was there already."""
    if installed(starter) == cron_line(starter):
        return False
    _replace([*_others(starter), cron_line(starter).encode("utf-8", "surrogateescape") + b"\n"])
    return True


def delete(starter: Starter) -> bool:
    """Remove our line; return False if there was none."""
    if not is_there() or installed(starter) is None:
        return False
    others = _others(starter)
    if others:
        _replace(others)
    else:
        _checked(run("crontab", "-r"))
    return True


def runs() -> bool:
    """Tell whether a program runs that starts the lines."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "comm").read_text().strip() in CRONS:
                return True
        except OSError:
            continue  # it has ended
    return False


def _list() -> ToolResult:
    return run("crontab", "-l")


def _reads(listed: ToolResult) -> bool:
    # A user without a crontab is told so with an error.
    return listed.is_ok or (listed.code != NOT_RUN and "no crontab for" in listed.err)


def _lines() -> list[bytes]:
    listed = _list()
    if not _reads(listed):
        raise Refused(f"cannot read your crontab: {listed.err}")
    return listed.out.splitlines(keepends=True) if listed.is_ok else []


def _others(starter: Starter) -> list[bytes]:
    mark = cron_mark(starter).encode("utf-8", "surrogateescape")
    others = [line for line in _lines() if not line.rstrip().endswith(mark)]
    if others and not others[-1].endswith(b"\n"):
        others[-1] += b"\n"
    return others


def _replace(lines: list[bytes]) -> None:
    _checked(run("crontab", "-", said=b"".join(lines)))


def _checked(done: ToolResult) -> None:
    if not done.is_ok:
        raise Refused(f"cannot change your crontab: {done.err or f'exit {done.code}'}; it is as it was")
