"""Placeholders: `{gpu}` in a command or environment becomes what the job was given."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# The doubled form is tried first, so `{{gpu}}` is never read as a brace around `{gpu}`.
_BRACES = re.compile(rb"\{\{([^{}]+)\}\}|\{([^{}]+)\}")
_RESOURCE = re.compile(rb"[a-z][a-z0-9_]*")

JOB_PLACEHOLDERS = frozenset({b"job.id", b"job.name", b"job.attempt"})


def fill(text: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """Replace `{name}` for each known name; `{{name}}` is a literal `{name}`; every other brace stays as it is.

    One pass: braces inside a value belong to the value and are not replaced.
    """

    def put(match: re.Match[bytes]) -> bytes:
        doubled, single = match.groups()
        if doubled is not None:
            return match[0][1:-1] if doubled in values else match[0]
        return values.get(single, match[0])

    return _BRACES.sub(put, text)


def literal(text: bytes, names: Collection[bytes]) -> bytes:
    """Return a text that `fill` turns back into this one, whatever it puts in for these names."""

    def wrap(match: re.Match[bytes]) -> bytes:
        # With one more pair around it a placeholder becomes literal, and a doubled one stays doubled.
        return b"{" + match[0] + b"}" if (match[1] or match[2]) in names else match[0]

    return _BRACES.sub(wrap, text) if b"{" in text else text


def placeholders(text: bytes) -> set[bytes]:
    """Return the names a text asks for: not doubled, and spelled like a resource or one of the job's own names."""
    names = {match[2] for match in _BRACES.finditer(text) if match[2] is not None}
    return {name for name in names if name in JOB_PLACEHOLDERS or _RESOURCE.fullmatch(name)}
