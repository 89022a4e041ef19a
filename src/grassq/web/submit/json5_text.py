"""JSON5 as people type it: unquoted keys, single quotes, trailing commas, `.5`."""

from __future__ import annotations

import json
from functools import lru_cache

import json5
import msgspec

from grassq.core.names import shown
from grassq.errors import BadInput

TEXT_MAX = 64 * 1024


def parse_object(text: str, what: str) -> dict[str, object]:
    """Return an object such as {gpu: 0.5}; raise BadInput if the text is anything else."""
    if len(text) > TEXT_MAX:
        raise BadInput(f"{what} is longer than {TEXT_MAX:,} characters")
    value = msgspec.json.decode(_as_json(text, what))
    if not isinstance(value, dict):
        raise BadInput(f"{what} {shown(text)} is no object; write it as in {{gpu: 0.5}}")
    return value


def parse_value(text: str, what: str) -> object:
    """Return any JSON5 value."""
    return parse_object(f"{{x: {text}}}", what)["x"]


@lru_cache(maxsize=1024)
def _as_json(text: str, what: str) -> bytes:
    # Cached as text, because a caller could change a cached dict. json5 takes milliseconds, so `json` goes first.
    try:
        return msgspec.json.encode(json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant))
    except ValueError:
        pass
    try:
        value = json5.loads(text, allow_duplicate_keys=False, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{what} {shown(text)} is not JSON5{_reason(error)}; names may be bare, ids are quoted: "
            "{gpu: 0.5} or {gpu: {'2': 1}}"
        ) from None
    return msgspec.json.encode(value)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is no amount")


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f" ({first[0].removeprefix('<string>:1 ')[:120]})" if first and not isinstance(error, RecursionError) else ""
