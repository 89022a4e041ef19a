"""show (info, status) and why: looking at jobs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from grassq.cli import job_text as shape
from grassq.cli import render
from grassq.cli.commands.show import show as show_jobs
from grassq.cli.connect import connect


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name == "why":
        parser.add_argument("selectors", metavar="SELECTOR", nargs="+", help="the jobs")
        parser.set_defaults(run=why)
    else:
        parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs (default: the current ones)")
        parser.set_defaults(run=show)
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")


def show(arguments: argparse.Namespace) -> int:
    """Print jobs, and without a selector the queues and totals."""
    return show_jobs(arguments.selectors, as_json=arguments.json, broker=arguments.broker)


def why(arguments: argparse.Namespace) -> int:
    """Print why jobs are where they are."""
    with connect(arguments.broker) as client:
        answer = client.why(arguments.selectors)
    if arguments.json:
        return render.document(answer)
    for job in answer.get("jobs", []):
        render.lines(str(job.get("text") or f"job {job.get('id')} is {job.get('state')}"))
        if len(answer["jobs"]) == 1:
            _story(job.get("story", []))
    return 0


def _story(story: Sequence[Mapping[str, Any]]) -> None:
    now = shape.now()
    for line in story:
        render.line(f"  {shape.clock(line.get('at'), now)}  {line.get('kind')}  {line.get('detail') or ''}".rstrip())
