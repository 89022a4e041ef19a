"""kill, rerun, hold, release, priority, clean: changing jobs."""

from __future__ import annotations

import argparse

from grassq.cli import render
from grassq.cli.connect import connect
from grassq.core.syntax.durations import duration_s
from grassq.errors import BadInput, GrassError
from grassq.net.client import Document, compact

_DEFAULTS = {"clean": " (default: all that have ended)", "rerun": " (default with --failed: all)"}
_DONE = {"hold": "held", "release": "released", "priority": "changed"}


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument(
        "selectors",
        metavar="SELECTOR",
        nargs="*" if name in ("clean", "rerun") else "+",
        help="the jobs" + _DEFAULTS.get(name, ""),
    )
    if name == "rerun":
        help_ = "only those that failed and have not been run again since, or only to fail again"
        parser.add_argument("--failed", action="store_true", help=help_)
    if name == "kill":
        parser.add_argument("--grace", metavar="DURATION", help="time between asking and killing, such as 2s")
    if name == "priority":
        parser.add_argument("priority", metavar="N", type=int, help="larger is sooner; 30 is neutral")
    if name == "clean":
        parser.add_argument("--older", metavar="DURATION", help="only what ended longer ago, such as 7d")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print ids alone")
    parser.set_defaults(run=change, verb=name)


def change(arguments: argparse.Namespace) -> int:
    """Change the selected jobs and say what became of them."""
    if arguments.verb == "rerun" and not (arguments.selectors or arguments.failed):
        raise BadInput("say which jobs to run again, or --failed; see `grass rerun --help`")
    with connect(arguments.broker) as client:
        selectors = arguments.selectors
        if arguments.verb == "kill":
            grace_s = None if arguments.grace is None else duration_s(arguments.grace)
            answer = client.kill(selectors, grace_s=grace_s)
        elif arguments.verb == "priority":
            answer = client.priority(selectors, arguments.priority)
        elif arguments.verb == "clean":
            older_s = None if arguments.older is None else duration_s(arguments.older)
            answer = client.clean(selectors or ["all"], older_s=older_s)
        elif arguments.verb == "rerun":
            answer = client.rerun(selectors, failed=arguments.failed)
        else:
            answer = {"hold": client.hold, "release": client.release}[arguments.verb](selectors)
    try:
        _report(arguments, answer)
    except BrokenPipeError:
        raise
    except OSError as error:
        if arguments.verb != "rerun":
            raise
        ids = ",".join(compact(job["id"] for job in answer["jobs"]))
        raise GrassError(f"stored as {ids}, but {render.reason(error)}") from error
    render.notes(answer.get("notes", []))
    return 0


def _report(arguments: argparse.Namespace, answer: Document) -> None:
    jobs = answer.get("jobs", [])
    if arguments.json:
        render.document(answer)
    elif arguments.quiet:
        render.text("".join(f"{job['id']}\n" for job in jobs))
    elif arguments.verb == "clean":
        removed = answer.get("removed", 0)
        render.line(f"removed {removed} {'job' if removed == 1 else 'jobs'}")
    elif arguments.verb == "rerun" and not jobs:
        render.line("nothing to run again: of these jobs none failed that has not been run again")
    else:
        for job in jobs:
            if arguments.verb == "kill" and job.get("state") in ("succeeded", "failed"):
                continue  # it had ended by itself: the notes say so
            render.line(_sentence(arguments.verb, job))


def _sentence(verb: str, job: Document) -> str:
    if verb == "rerun":
        return f"job {job['id']} is job {job.get('rerun_of')} again"
    if verb == "kill":
        return (
            f"job {job['id']} is cancelled" if job.get("state") == "cancelled" else f"job {job['id']} is asked to end"
        )
    if verb == "priority":
        return f"job {job['id']} has priority {job.get('priority')}"
    return f"job {job['id']} is {_DONE[verb]}"
