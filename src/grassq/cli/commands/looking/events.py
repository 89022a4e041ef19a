"""events: changes of jobs, as they happen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.connect import connect


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `events`."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs or queues (default: all)")
    parser.add_argument("--json", action="store_true", help="print each change as one line of JSON")
    parser.set_defaults(run=events)


def events(arguments: argparse.Namespace) -> int:
    """Print changes, one line each, until Ctrl-C."""
    with connect(arguments.broker) as client:
        for event in client.events(arguments.selectors):
            if arguments.json:
                render.text(json.dumps(event) + "\n")
            elif event.get("event") == "reread":
                render.error("changes were missed; `grass show` prints the current state")
            elif event.get("event") != "subscribed":
                render.line(_line(event))
    return 0


def _line(event: Mapping[str, Any]) -> str:
    first, last = event.get("job"), event.get("last")
    jobs = f"job {first}" if first == last else f"jobs {first}-{last}"
    name = f" ({event['name']})" if event.get("name") else ""
    detail = f": {event['detail']}" if event.get("detail") else ""
    at = job_text.clock(event.get("at"), job_text.now())
    return f"{at} {jobs}{name} {event.get('event')} in {event.get('queue')}{detail}"
