"""notify: the rules of notices, the last deliveries, and a test notice."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.connect import connect
from grassq.errors import GrassError

#: The deliveries that are printed without --json.
RECENT_SHOWN = 20


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `notify`."""
    parser.add_argument(
        "--test",
        metavar="TO",
        nargs="?",
        const="",
        help="send a test notice now to a command, a URL or desktop; without TO to the targets of all rules",
    )
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")
    parser.set_defaults(run=notify)


def notify(arguments: argparse.Namespace) -> int:
    """Print the rules and the last deliveries, or send a test notice."""
    with connect(local=True) as client:
        if arguments.test is None:
            answer = client.get("notify")
            return render.document(answer) if arguments.json else _list(answer)
        answer = client.change("notify/test", to=arguments.test or None)
    results = answer.get("results", [])
    if arguments.json:
        render.document(answer)
    for result in results if not arguments.json else ():
        if result.get("ok"):
            render.line(f"sent to {result.get('to')}")
    failed = [result for result in results if not result.get("ok")]
    for result in failed:
        render.error(f"not sent to {result.get('to')}: {result.get('error')}")
    return GrassError.exit_code if failed else 0


def _list(answer: Mapping[str, Any]) -> int:
    rules, recent, waiting = (answer.get(key, []) for key in ("rules", "recent", "waiting"))
    if rules:
        render.table(["ON", "QUEUE", "NAME", "TO"], [_rule(rule) for rule in rules], flexible="TO")
    else:
        render.line("no rules; a job names its own targets with --notify, and [[notify]] in grass.toml makes a rule")
    rows = [_delivery(each) for each in (*waiting, *recent[:RECENT_SHOWN])]
    if rows:
        render.line("")
        render.table(["TIME", "STATE", "TRIES", "TO", "NOTICE", "ERROR"], rows, flexible="NOTICE")
    for count, words in ((answer.get("waiting_count"), "wait"), (answer.get("dropped"), "were dropped")):
        if count:
            render.line(f"{count} {'notice' if count == 1 else 'notices'} {words}")
    return 0


def _rule(rule: Mapping[str, Any]) -> list[str]:
    return [",".join(rule.get("on", [])), rule.get("queue") or "any", rule.get("name") or "any", str(rule.get("to"))]


def _delivery(each: Mapping[str, Any]) -> list[str]:
    at = job_text.clock(each.get("at"), job_text.now())
    title, error = str(each.get("title") or ""), str(each.get("error") or "")
    return [at, str(each.get("state")), str(each.get("tries")), str(each.get("to")), title, error]
