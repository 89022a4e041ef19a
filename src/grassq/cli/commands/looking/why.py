"""why: the reason for a job's state, and its history."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.commands.looking.eta import interval
from grassq.cli.connect import connect


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `why`."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="+", help="the jobs")
    parser.set_defaults(run=why)
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")


def why(arguments: argparse.Namespace) -> int:
    """Print why each job is in its state; for a single job also its history."""
    with connect(arguments.broker) as client:
        answer = client.get("why", arguments.selectors)
    if arguments.json:
        return render.document(answer)
    for job in answer.get("jobs", []):
        for line in str(job.get("text") or f"job {job.get('id')} is {job.get('state')}").split("\n"):
            render.line(line)
        if job.get("turn"):
            render.line(f"  {_turn(job['turn'])}")
        for line in _when(job):
            render.line(f"  {line}")
        if len(answer["jobs"]) == 1:
            _story(job.get("story", []))
    return 0


def _turn(turn: Mapping[str, Any]) -> str:
    """Return where a queued job is in line, in words."""
    now, place = job_text.now(), _place(turn)
    kept = f"room is kept for it on {turn.get('kept_on')} since {job_text.clock(turn.get('kept_since'), now)}"
    latest = job_text.clock(turn.get("kept_from_equals_at"), now)
    if turn.get("starts_by"):
        return f"{kept}; it starts by {job_text.clock(turn['starts_by'], now)} at the latest, by time limits"
    if turn.get("kept_from_equals"):
        return kept
    if turn.get("kept_on") is not None:
        return f"{place}; {kept}, from jobs of lower priority"
    return f"{place}; room is kept for it from {latest} at the latest" if latest else place


def _when(job: Mapping[str, Any]) -> list[str]:
    """Return when a job starts or ends, and what would let it start now."""
    when, now, said = job.get("when") or {}, job_text.now(), []
    if when.get("starts") and job.get("state") == "queued":
        said.append(f"starts {interval(when['starts'], now)}")
    if when.get("ends"):
        said.append(f"ends {interval(when['ends'], now)}")
    lines = [f"{', '.join(said)}; from {when.get('basis')}"] if said else []
    if not said and when.get("reason"):
        lines.append(str(when["reason"]))
    return lines + [str(hint) for hint in job.get("hints") or []]


def _place(turn: Mapping[str, Any]) -> str:
    passed, higher, earlier = (turn.get(key) for key in ("passed", "higher", "earlier"))
    if passed:
        return f"passed by {passed} of {turn.get('passes')} jobs"
    before = [f"{higher} of higher priority"] if higher else []
    if passed is None and earlier:
        before.append(f"{earlier} earlier")
    return f"jobs that come first: {', '.join(before)}" if before else "next in line"


def _story(story: Sequence[Mapping[str, Any]]) -> None:
    now = job_text.now()
    for line in story:
        render.line(f"  {job_text.clock(line.get('at'), now)}  {line.get('kind')}  {line.get('detail') or ''}".rstrip())
