"""What users are told of a parser's arguments: which, and how they are typed."""

from __future__ import annotations

import argparse


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments that a user is told of, `--help` aside."""
    return [
        action
        for action in parser._actions
        if action.help != argparse.SUPPRESS and "--help" not in action.option_strings
    ]


def synopsis(parser: argparse.ArgumentParser) -> str:
    """Return the line that shows how a command is typed."""
    # By hand, because argparse words its usage differently from one Python to the next.
    return " ".join([parser.prog, *(_in_synopsis(action) for action in shown(parser))])


def spelled(action: argparse.Action, option: str) -> str:
    """Return an option with its value."""
    return option if action.nargs == 0 else f"{option} {action.metavar}"


def _in_synopsis(action: argparse.Action) -> str:
    if action.option_strings:
        return f"[{spelled(action, action.option_strings[-1])}]"
    name = str(action.metavar)
    return {"*": f"[{name}...]", "+": f"{name}...", "?": f"[{name}]"}.get(str(action.nargs), name)
