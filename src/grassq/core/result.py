"""The result of a job: what the command wrote to $GRASS_RESULT_FILE, as JSON.

The shim reads a result when the command has ended, and the broker checks what a worker sends; both call `read`.
Every shim may load this module, so it imports only `json`.
"""

from __future__ import annotations

import json

#: The largest result, in bytes as compact ASCII JSON. A larger result belongs in a file in $GRASS_RUN_DIR.
RESULT_MAX = 16 << 10
#: How deep lists and objects may be nested.
DEPTH_MAX = 32


def read(data: bytes) -> str:
    """Return a result as compact ASCII JSON, with null for NaN and infinities; raise ValueError with the problem."""
    if len(data) > RESULT_MAX:
        raise ValueError(f"it is larger than {RESULT_MAX:,} bytes")
    try:
        value = json.loads(data, parse_constant=lambda _: None)
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise _too_deep() from None
    if len(text) > RESULT_MAX:
        raise ValueError(f"it is larger than {RESULT_MAX:,} bytes as ASCII")
    if _is_deeper(value, DEPTH_MAX):
        raise _too_deep()
    return text


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEPTH_MAX} levels deep")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (list, dict)):
        return False
    within = value if isinstance(value, list) else value.values()
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in within)
