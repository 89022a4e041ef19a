"""The settings as people see them: values, where they come from, and those that a running daemon has not read yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from grassq import home as homes
from grassq import settings
from grassq.core.notices.targets import masked, read_target
from grassq.core.syntax.store_urls import shown_url
from grassq.daemon.context import DaemonContext, load_mode
from grassq.errors import BadInput

Document = dict[str, Any]


def settings_file(home: str) -> str:
    """Return the path of the file with the settings of a home."""
    return str(Path(home) / settings.FILE_NAME)


def running_config(setup: DaemonContext) -> Document:
    """Return the settings of this daemon, with their secrets: for its owner only."""
    return _config(setup.values, setup.origins)


def describe_settings(home: str, running: Mapping[str, Any] | None) -> list[Document]:
    """Return every setting as a daemon started now would have it; `running` is what a running daemon says it has.

    Without secrets. Raise BadInput for settings with which no daemon would start.
    """
    values, origins = settings.trace(home, homes.environment_text(), load_mode(home).settings)
    defaults = _config(settings.Settings(), {})
    found = []
    for name, now in _config(values, origins).items():
        used = (running or {}).get(name) or {}
        is_old = "value" in used and used["value"] != now["value"]
        found.append(
            {
                "name": name,
                "value": _shown(name, now["value"]),
                "default": defaults[name]["value"],
                "origin": now["origin"],
                "running": _shown(name, used["value"]) if is_old else None,
                "running_origin": used.get("origin") if is_old else None,
                "restart": is_old,
            }
        )
    return found


def _config(values: settings.Settings, origins: Mapping[str, settings.Origin]) -> Document:
    # Through JSON's types, so that what a daemon says compares with what is read here.
    plain = msgspec.json.decode(msgspec.json.encode(values))
    return {
        name: {"value": value, "origin": msgspec.to_builtins(origins.get(name, settings.Origin("default")))}
        for name, value in plain.items()
    }


def _shown(name: str, value: Any) -> Any:
    """Return a value without its secrets."""
    if name == "store":
        return shown_url(str(value))
    if name == "notify":
        return [{**rule, "to": _shown_target(str(rule.get("to")))} for rule in value]
    return value


def _shown_target(text: str) -> str:
    try:
        return masked(read_target(text))
    except BadInput:
        return "..."
