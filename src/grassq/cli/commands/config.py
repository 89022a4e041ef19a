"""config: every setting, where it comes from, and what a restart would change."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from grassq.cli import render
from grassq.cli.fast import current_home
from grassq.errors import BadInput, GrassError, Unreachable
from grassq.net.client import ApiClient

ACTIONS = ("show", "path")


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `config`."""
    parser.add_argument("action", metavar="show|path", nargs="?", default="show", help="the settings, or their file")
    parser.add_argument("--origin", action="store_true", help="tell where each value comes from")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.set_defaults(run=config)


def config(arguments: argparse.Namespace) -> int:
    """Print the settings, or the path of their file."""
    from grassq.configuration import describe_settings, settings_file

    if arguments.action not in ACTIONS:
        raise BadInput(f"there is no `grass config {arguments.action}`; there are `config show` and `config path`")
    home = current_home()
    if arguments.action == "path":
        path = settings_file(home)
        return render.document({"path": path}) if arguments.json else render.line(path)
    running = _running(home)
    found = describe_settings(home, running)
    if arguments.json:
        return render.document(
            {
                "schema": 1,
                "home": home,
                "file": settings_file(home),
                "daemon_runs": running is not None,
                "settings": found,
            }
        )
    return _table(found, with_origin=arguments.origin)


def _table(found: Sequence[Mapping[str, Any]], *, with_origin: bool) -> int:
    headers = ["SETTING", "VALUE", "ORIGIN"][: 3 if with_origin else 2]
    rows = [[each["name"], _value(each["value"]), _origin(each["origin"])][: len(headers)] for each in found]
    render.table(headers, rows, flexible="VALUE", whole="SETTING")
    for each in found:
        if each["restart"]:
            used, origin = _value(each["running"]), _origin(each["running_origin"] or {})
            render.error(f"{each['name']}: the daemon still uses {used} ({origin}); `grass restart` to apply")
    return 0


def _running(home: str) -> Mapping[str, Any] | None:
    """Return what the running daemon uses; None if there is no daemon, or if it is of a release that does not tell."""
    try:
        with ApiClient(home, autostart=False) as client:
            settings = client.get("config").get("settings")
    except Unreachable:
        return None
    except GrassError as error:
        render.error(f"the running daemon does not say what it uses: {error}")
        return None
    return settings if isinstance(settings, dict) else None


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_rule(rule) for rule in value) or "none"
    return '""' if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _rule(rule: Mapping[str, Any]) -> str:
    only = "".join(f" {key} {rule[key]}" for key in ("queue", "name") if rule.get(key))
    return f"{','.join(rule.get('on', ()))}{only} -> {rule.get('to')}"


def _origin(origin: Mapping[str, Any]) -> str:
    kind, where = str(origin.get("kind") or "unknown"), str(origin.get("where") or "")
    return where if kind == "file" else f"{kind} {where}".strip()
