"""move: puts jobs that have not started before or after others of equal priority."""

from __future__ import annotations

import argparse

from grassq.cli import render
from grassq.cli.connect import connect
from grassq.errors import BadInput


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="the jobs; they stay in their order")
    parser.add_argument("--first", action="store_true", help="before all queued jobs of equal priority")
    parser.add_argument("--last", action="store_true", help="after all queued jobs of equal priority")
    parser.add_argument("--before", metavar="JOB", help="directly before this job")
    parser.add_argument("--after", metavar="JOB", help="directly after this job")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only ids")
    parser.epilog = "A larger priority always goes first; `grass priority` changes it."
    parser.set_defaults(run=move)


def move(arguments: argparse.Namespace) -> int:
    """Move the selected jobs and print where they are."""
    given = {name: getattr(arguments, name) for name in ("first", "last", "before", "after")}
    chosen = [(name, value) for name, value in given.items() if value not in (None, False)]
    if not arguments.selectors:
        raise BadInput("name the jobs to move; see `grass move --help`")
    if len(chosen) != 1:
        raise BadInput("say where to, in one way: --first, --last, --before JOB or --after JOB")
    [(where, value)] = chosen
    target = value if isinstance(value, str) else None
    with connect(arguments.broker) as client:
        answer = client.change("jobs/move", selectors=arguments.selectors, where=where, target=target)
    ids = answer.get("ids", [])
    if arguments.json:
        render.document(answer)
    elif arguments.quiet:
        render.text("".join(f"{id_}\n" for id_ in ids))
    elif not ids:
        render.line("nothing changed: the jobs are there already")
    else:
        some = f"job {ids[0]} is" if len(ids) == 1 else f"{len(ids)} jobs are"
        render.line(f"{some} now {where}" + (f" job {target}" if target else " among jobs of equal priority"))
    render.notes(answer.get("notes", []))
    return 0
