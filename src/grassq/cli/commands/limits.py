"""limit: lists, sets and removes limits of groups of jobs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from grassq.cli import render
from grassq.cli.connect import connect
from grassq.core.syntax.resource_names import OTHER_NAMES
from grassq.errors import BadInput
from grassq.net.client import Document

#: The word for how many jobs of a group run at once; every other word is a resource.
JOBS = "jobs"
NO_LIMITS = "no group has a limit; grass limit project:NAME gpu=4 sets one"


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("group", metavar="GROUP", nargs="?", help="project:NAME or tag:KEY=VALUE (default: list all)")
    parser.add_argument(
        "amounts",
        metavar="NAME=AMOUNT",
        nargs="*",
        help="the whole limit: gpu=4, mem=64G, and jobs=10 for the number at once",
    )
    parser.add_argument("--remove", action="store_true", help="remove the limit of the group")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.epilog = (
        "Jobs above a limit wait, and running jobs finish. A limit is kept by the broker; only its owner and tokens "
        "with the right admin change it."
    )
    parser.set_defaults(run=limit)


def limit(arguments: argparse.Namespace) -> int:
    """List the limits, or set or remove one."""
    if arguments.remove and arguments.group is None:
        raise BadInput("name the group whose limit is removed: grass limit project:NAME --remove")
    if arguments.group is not None and ":" not in arguments.group:
        example = arguments.group if "=" in arguments.group else "gpu=4"
        raise BadInput(f"a limit is of a group: grass limit project:NAME {example}, or tag:KEY=VALUE {example}")
    amounts, jobs = _read(arguments.amounts)
    with connect(arguments.broker) as client:
        if arguments.group is None or not (arguments.remove or arguments.amounts):
            return _list(client.get("limits"), arguments.group, arguments.json)
        answer = client.change(
            "limit", group=arguments.group, amounts=amounts or None, jobs=jobs, remove=arguments.remove
        )
    group = answer.get("group")
    sentence = f"removed the limit of {group}" if arguments.remove else f"{group} holds at most {_asked(amounts, jobs)}"
    return render.outcome(arguments.json, answer, sentence)


def _read(words: list[str]) -> tuple[dict[str, str], int | None]:
    amounts: dict[str, str] = {}
    for word in words:
        name, equals, amount = word.removeprefix("--").partition("=")
        if not name or not equals or not amount:
            raise BadInput(f"a limit needs NAME=AMOUNT, such as gpu=4 or jobs=10, not {word!r}")
        if name in amounts:
            raise BadInput(f"{name} is limited twice")
        if meant := OTHER_NAMES.get(name):
            raise BadInput(f"there is no resource {name!r}; did you mean {meant}?")
        amounts[name] = amount
    jobs = amounts.pop(JOBS, None)
    if jobs is not None and not (jobs.isascii() and jobs.isdigit() and len(jobs) <= 10):
        raise BadInput(f"jobs= needs a whole number, not {jobs[:80]!r}")
    return amounts, None if jobs is None else int(jobs)


def _list(answer: Document, group: str | None, as_json: bool) -> int:
    limits = [each for each in answer.get("limits", []) if group in (None, each.get("group"))]
    if as_json:
        return render.document({"limits": limits})
    if not limits:
        return render.line(NO_LIMITS if group is None else f"{group} has no limit")
    width = max(len(str(each.get("group"))) for each in limits)
    for each in limits:
        render.line(f"{each.get('group')!s:<{width}}  {_held(each)}")
    return 0


def _held(limit: Mapping[str, Any]) -> str:
    """Return what a group holds of its limit: `gpu 2 of 4, jobs 1 of 10`."""
    held = limit.get("held") or {}
    most = limit.get("amounts") or {}
    parts = [f"{name} {_number(held.get(name, 0))} of {_number(amount)}" for name, amount in most.items()]
    if limit.get("jobs") is not None:
        parts.append(f"jobs {limit.get('running')} of {limit.get('jobs')}")
    return ", ".join(parts)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _asked(amounts: Mapping[str, str], jobs: int | None) -> str:
    parts = [f"{name} {amount}" for name, amount in amounts.items()]
    return ", ".join(parts if jobs is None else [*parts, f"jobs {jobs}"])
