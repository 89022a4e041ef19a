"""drain, remove: change a worker."""

from __future__ import annotations

import argparse

from grassq.cli import render
from grassq.cli.connect import connect


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument("worker", metavar="NAME", help="the worker, as `grass show` names it")
    if name == "drain":
        parser.add_argument("--undo", action="store_true", help="start jobs on the worker again")
    else:
        parser.add_argument("--lost", action="store_true", help="the worker will not come back: its jobs count as lost")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the name of the worker")
    parser.set_defaults(run=drain if name == "drain" else remove)


def drain(arguments: argparse.Namespace) -> int:
    """Start no new jobs on a worker; its running jobs finish."""
    with connect(arguments.broker) as client:
        answer = client.change("drain", worker=arguments.worker, undo=arguments.undo)
    name = answer.get("worker")
    if answer.get("drained"):
        sentence = (
            f"worker {name} finishes its jobs and gets no new ones; `grass drain {name} --undo` lets it take jobs again"
        )
    else:
        sentence = f"worker {name} takes jobs again"
    return render.outcome(arguments.json, answer, str(name) if arguments.quiet else sentence)


def remove(arguments: argparse.Namespace) -> int:
    """Remove a worker and revoke its token."""
    with connect(arguments.broker) as client:
        answer = client.change("remove-worker", worker=arguments.worker, lost=arguments.lost)
    name = str(answer.get("worker"))
    sentence = name if arguments.quiet else f"worker {name} is removed; only `grass join` brings it back"
    return render.outcome(arguments.json, answer, sentence)
