"""eta: when jobs start and end, as intervals, and on what that rests."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.connect import connect
from grassq.errors import BadInput

#: How many jobs the table has; `--json` has all of the answer.
ROWS_MAX = 60
#: On a narrower terminal, intervals count from now on and some columns are left out.
WIDE_COLUMNS = 120
#: An interval that is shorter, in seconds, is told to the second.
SHORT_S = 120


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `eta`."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs (default: what runs and what is next)")
    parser.add_argument("--check", action="store_true", help="tell how often past intervals held")
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")
    parser.set_defaults(run=eta)


def eta(arguments: argparse.Namespace) -> int:
    """Print when jobs start and end."""
    if arguments.check:
        return check(arguments)
    with connect(arguments.broker) as client:
        answer = client.get("eta", arguments.selectors)
    if arguments.json:
        return render.document(answer)
    jobs: list[Mapping[str, Any]] = answer.get("jobs", [])
    now = job_text.seconds(answer.get("now")) or job_text.now()
    if not jobs:
        return render.line("nothing runs and nothing is queued")
    if len(jobs) == 1 and arguments.selectors:
        for line in sentences(jobs[0], now):
            render.line(line)
        return 0
    _table(jobs[:ROWS_MAX], now)
    _rest(answer, jobs, now, is_selection=bool(arguments.selectors))
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Print how often past intervals of starts and of ends held."""
    if arguments.selectors:
        raise BadInput("--check is about all past predictions; it takes no job")
    with connect(arguments.broker) as client:
        answer = client.get("eta/check")
    if arguments.json:
        return render.document(answer)
    kinds = [(name, answer.get(name) or {}) for name in ("starts", "ends")]
    if not any(counts.get("count") for _, counts in kinds):
        waiting = f"; {answer['waiting']} wait for their time" if answer.get("waiting") else ""
        return render.line(f"no finished predictions yet{waiting}")
    rows = []
    for name, counts in kinds:
        for basis, each in [("all", counts), *sorted((counts.get("by_basis") or {}).items())]:
            if count := int(each.get("count") or 0):
                shares = [f"{100 * int(each.get(key) or 0) / count:.0f} %" for key in ("held", "early", "late")]
                rows.append([name, str(basis), str(count), *shares])
    render.table(["WHAT", "FROM", "COUNT", "HELD", "CAME EARLIER", "CAME LATER"], rows, flexible="FROM")
    return render.line(f"meant to hold: {100 * float(answer.get('share') or 0.8):.0f} %")


def sentences(job: Mapping[str, Any], now: float) -> list[str]:
    """Return when one job starts and ends, and the basis, as lines."""
    head, starts, ends, reason = f"job {job.get('id')}", job.get("starts"), job.get("ends"), job.get("reason")
    said = []
    if starts and job.get("state") not in ("running", "placed"):
        said.append(f"starts {interval(starts, now)}")
    if ends:
        said.append(f"ends {interval(ends, now)}")
    lines = [f"{head} is {job.get('state')}: {', '.join(said)}" if said else f"{head} is {job.get('state')}"]
    if reason:
        lines.append(f"  {reason}")
    if job.get("basis"):
        lines.append(f"  from {job['basis']}; 8 of 10 such intervals are meant to hold")
    return lines


def interval(found: Mapping[str, Any], now: float) -> str:
    """Return an interval as `in about 3m, 14:31 (14:25 to 14:40)`; never as an exact time."""
    likely = job_text.seconds(found.get("likely"))
    if likely is None:
        return "?"
    seconds = _width(found) < SHORT_S
    low, high = (_clock(found.get(side), now, with_seconds=seconds) for side in ("low", "high"))
    middle = _clock(found.get("likely"), now, with_seconds=seconds)
    about = f"in about {job_text.span(likely - now)}" if likely - now >= 1 else "any moment"
    return f"{about}, {middle} ({low} to {high})"


def _width(found: Mapping[str, Any]) -> float:
    low, high = job_text.seconds(found.get("low")), job_text.seconds(found.get("high"))
    return (high or 0.0) - (low or 0.0)


def _clock(text: str | None, now: float, *, with_seconds: bool) -> str:
    """Return a time of day, to the minute where the interval is wide."""
    clock = job_text.clock(text, now)
    return clock if with_seconds or clock.count(":") < 2 else clock.rpartition(":")[0]


def brief(found: Mapping[str, Any], now: float) -> str:
    """Return an interval as `~3m (2m to 5m)` from now on, for a narrow terminal."""
    low, likely, high = (job_text.seconds(found.get(side)) for side in ("low", "likely", "high"))
    if low is None or likely is None or high is None:
        return "?"
    return f"~{job_text.span(likely - now)} ({job_text.span(low - now)} to {job_text.span(high - now)})"


def _table(jobs: Sequence[Mapping[str, Any]], now: float) -> None:
    is_narrow = os.isatty(1) and render.width() < WIDE_COLUMNS
    draw = brief if is_narrow else interval
    columns: dict[str, list[str]] = {name: [] for name in ("ID", "NAME", "STATE", "STARTS", "ENDS", "FROM", "COMMAND")}
    for job in jobs:
        starts, ends = job.get("starts"), job.get("ends")
        has_begun = job.get("state") in ("running", "placed")
        began = job_text.clock(starts.get("likely"), now) if starts and has_begun else ""
        columns["ID"].append(str(job.get("id")))
        columns["NAME"].append(str(job.get("name") or ""))
        columns["STATE"].append(str(job.get("state")))
        columns["STARTS"].append(f"since {began}" if began else draw(starts, now) if starts else "")
        columns["ENDS"].append(draw(ends, now) if ends else str(job.get("reason") or ""))
        # Only what the run time rests on; the rest is the same for all rows.
        columns["FROM"].append(str(job.get("basis") or "").partition(",")[0])
        columns["COMMAND"].append(job_text.command(job))
    for name in ("NAME", *(("FROM",) if is_narrow else ())):
        if is_narrow or not any(columns[name]):
            del columns[name]
    render.table(list(columns), list(zip(*columns.values(), strict=True)), flexible="COMMAND")


def _rest(answer: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], now: float, *, is_selection: bool) -> None:
    """Print when all is over, and what was left out."""
    done = answer.get("done")
    what = "all selected jobs" if is_selection else "all jobs"
    unknown = int(answer.get("without_estimate") or 0)
    if done:
        left_out = f"; without an estimate, not counted: {unknown}" if unknown else ""
        render.line(f"{what} end {interval(done, now)}{left_out}")
    elif is_selection and not answer.get("unfinished"):
        render.line(f"{what} have ended")
    else:
        render.line(f"no estimate of when {what} end")
    if answer.get("more") or len(jobs) > ROWS_MAX:
        shown = min(len(jobs), ROWS_MAX)
        total = answer.get("unfinished") or int(answer.get("running") or 0) + int(answer.get("queued") or 0)
        least = "at least " if is_selection and answer.get("more") else ""
        render.notes([f"shown are {shown} of {least}{total} jobs; name jobs, or use --json"])
