"""Settings: defaults, then the home's grass.toml, then GRASS_* variables, then flags. One frozen value, made once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from grassq.errors import BadInput

FILE_NAME = "grass.toml"
STORE_MEMORY = "memory"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set; docs/reference/settings.md is made from this."""

    #: Where jobs are kept: empty for SQLite in the home, "memory" for nowhere, or sqlite:PATH.
    store: str = ""
    #: What the machine has, as JSON5; empty to detect it.
    capacity: str = ""
    #: What a job asks that names no amount, as JSON5.
    default_request: str = "{cpu: 1}"
    #: How many jobs may pass the first blocked one of a queue before room is kept for it.
    passes: int = 64
    #: How many seconds the first blocked job of a queue waits before room is kept for it.
    patience_s: float = 600.0


def load(home: str, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """The settings in force."""
    values: dict[str, Any] = _from_file(Path(home) / FILE_NAME)
    for name in Settings.__struct_fields__:
        text = environ.get(f"GRASS_{name.upper()}")
        if text is not None:
            values[name] = text
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        cause = str(error).replace("`$.", "`")
        raise BadInput(f"a setting is wrong: {cause}; see {FILE_NAME} in {home}, and GRASS_* variables") from None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
