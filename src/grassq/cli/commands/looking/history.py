"""history: the runs, device hours and waiting times of ended jobs, in groups."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.connect import connect
from grassq.cli.listing import bars
from grassq.errors import BadInput

SINCE = "30d"
#: The groups that a table has; --csv and --json have all.
ROWS_MAX = 60
BAR_COLUMNS = 12
#: Resources whose hours have a column in the table, if a run held some.
SHOWN_RESOURCES = ("gpu", "cpu")
#: On a narrower terminal a table has no bars.
BAR_FROM_COLUMNS = 96


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `history`."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs, queues or names (default: all)")
    parser.add_argument("--by", metavar="WHAT", default="day", help="day (default), queue, name, worker or user")
    since = f"jobs that ended since a time: {job_text.SINCE_HELP} (default: {SINCE})"
    parser.add_argument("--since", metavar="TIME", default=SINCE, help=since)
    parser.add_argument("--csv", action="store_true", help="print comma-separated values, with a header")
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")
    parser.set_defaults(run=history)


def history(arguments: argparse.Namespace) -> int:
    """Print one line for each group, and the total."""
    if arguments.csv and arguments.json:
        raise BadInput("--csv and --json do not go together; choose one")
    since = f"{int(job_text.since_s(arguments.since, job_text.now()))}s"
    with connect(arguments.broker) as client:
        answer = client.get("history", arguments.selectors, by=arguments.by, since=since)
    if arguments.json:
        return render.document(answer)
    groups: Sequence[Mapping[str, Any]] = answer.get("groups", [])
    total: Mapping[str, Any] = answer.get("total") or {}
    if arguments.csv:
        return render.text(_csv(arguments.by, groups, total))
    if not groups:
        return render.line(f"no job ended (--since {arguments.since}); --since 365d looks further back")
    _table(arguments.by, groups, total)
    _footer(groups, total)
    return 0


def _table(by: str, groups: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> None:
    resources = [name for name in SHOWN_RESOURCES if (total.get("hours") or {}).get(name)]
    headers = [by.upper(), "JOBS", "RUNS", "OK", "FAILED", *(f"{name.upper()} H" for name in resources)]
    headers += ["WAIT MEDIAN", "WAIT P90"]
    rows = [_row(str(each.get("group")), each, resources) for each in groups[:ROWS_MAX]]
    if os.isatty(1) and render.width() >= BAR_FROM_COLUMNS:
        headers.append("RUN TIME")
        most = max(_number(each.get("run_hours")) for each in groups[:ROWS_MAX])
        for row, each in zip(rows, groups, strict=False):
            part = _number(each.get("run_hours")) / most if most > 0 else 0.0
            row.append(bars.bar(part, BAR_COLUMNS, ascii=not render.is_utf8()))
    last = _row("total", total, resources)
    rows.append(last + [""] * (len(headers) - len(last)))
    render.table(headers, rows, flexible=by.upper())


def _footer(groups: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> None:
    if len(groups) > ROWS_MAX:
        render.line(f"{len(groups) - ROWS_MAX} more groups are in the total; --csv and --json list them")
    others = {name: hours for name, hours in (total.get("hours") or {}).items() if name not in SHOWN_RESOURCES}
    if others:
        render.line("also: " + ", ".join(f"{name} {_hours(hours)} h" for name, hours in others.items()))
    render.line("jobs that have ended and were not removed by `grass clean`; RUNS counts every attempt that started")


def _row(name: str, group: Mapping[str, Any], resources: Sequence[str]) -> list[str]:
    rate, hours = group.get("success_rate"), group.get("hours") or {}
    return [
        name,
        str(group.get("jobs")),
        str(group.get("runs")),
        "-" if rate is None else bars.percent(_number(rate)),
        str(group.get("failed")),
        *(_hours(hours.get(resource, 0.0)) for resource in resources),
        _wait(group.get("wait_median_s")),
        _wait(group.get("wait_p90_s")),
    ]


def _csv(by: str, groups: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> str:
    import csv
    import io

    plain = ("jobs", "runs", "succeeded", "failed", "cancelled", "success_rate", "run_hours")
    waits = ("wait_median_s", "wait_p90_s")
    resources = sorted(total.get("hours") or {})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, [by, *plain, *(f"{name}_hours" for name in resources), *waits]))
    for group in groups:
        hours = group.get("hours") or {}
        values = [*(group.get(key) for key in plain), *(hours.get(name, 0) for name in resources)]
        values += [group.get(key) for key in waits]
        writer.writerow(map(_cell, [group.get("group"), *values]))
    return text.getvalue()


def _cell(value: object) -> str:
    return "" if value is None else render.clean(str(value))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _hours(value: object) -> str:
    hours = _number(value)
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"


def _wait(value: object) -> str:
    return job_text.span(value) if isinstance(value, int | float) else "-"
