"""The settings as people see them: values, where they come from, and those that a running daemon has not read yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from grassq import home as homes
from grassq import settings
from grassq.core.notices.targets import masked, read_target
from grassq.core.syntax.store_urls import shown_url
from grassq.errors import BadInput, Refused

#: The file in the home with the options that daemons are started with in the background.
MODE_NAME = "mode.json"
MODE_MAX = 64 << 10

Document = dict[str, Any]
T = TypeVar("T", bound=Struct)


def settings_file(home: str) -> str:
    """Return the path of the file with the settings of a home."""
    return str(Path(home) / settings.FILE_NAME)


class _SavedFlags(Struct, frozen=True):
    """The saved options of a daemon that are settings."""

    capacity: str | None = None
    store: str | None = None


def saved_flags(home: str) -> dict[str, object]:
    """Return the settings among the options that daemons of this home are started with in the background."""
    found = read_mode(home, _SavedFlags)
    return {} if found is None else msgspec.structs.asdict(found)


def read_mode(home: str, kind: type[T]) -> T | None:
    """Return the saved options of this home, as a struct of this kind; None if none are saved."""
    path = Path(home) / MODE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MODE_MAX), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as error:
        raise Refused(f"{path} cannot be read: {error}; run `grass daemon` with its options again") from error


def describe_settings(home: str, running: Mapping[str, Any] | None) -> list[Document]:
    """Return every setting as a daemon started now would have it; `running` is what a running daemon says it has.

    Without secrets. Raise BadInput for settings with which no daemon would start.
    """
    values, origins = settings.trace(home, homes.environment_text(), saved_flags(home))
    defaults = config_of(settings.Settings(), {})
    found = []
    for name, now in config_of(values, origins).items():
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


def config_of(values: settings.Settings, origins: Mapping[str, settings.Origin]) -> Document:
    """Return by name each value and where it comes from, with secrets: for the owner only."""
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
