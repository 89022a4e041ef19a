"""Globs over paths as bytes: `*`, `?`, `[a-z]` within a part of the path, and `**` over parts."""

from __future__ import annotations

import re


def regex(glob: bytes) -> re.Pattern[bytes]:
    r"""Return the regular expression of a glob without a leading or trailing slash.

    `**/` is any number of folders, `/**` is everything inside, and `\x` is the character x itself.
    """
    # Between two stars the first place that matches is as good as any other. The atomic groups tell `re` so: a glob
    # with many stars takes time in proportion to the path, whatever the path is.
    runs: list[list[bytes]] = [[]]
    for part in glob.split(b"/"):
        if part == b"**":
            runs.append([])
        else:
            runs[-1].append(_part(part))
    first, *between = [b"/".join(run) for run in runs]
    if not between:
        return re.compile(first, re.DOTALL)
    last = between.pop()
    text = first + b"/" if first else b""
    text += b"".join(b"(?>(?:[^/]+/)*?" + run + b"/)" for run in between if run)
    return re.compile(text + (b"(?:[^/]+/)*" + last if last else b".+"), re.DOTALL)


def _part(glob: bytes) -> bytes:
    """Return the regular expression of a glob inside one part of a path."""
    pieces = [b""]
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        at += 1
        if char == b"*":
            pieces.append(b"")
        elif char == b"?":
            pieces[-1] += b"[^/]"
        elif char == b"[" and (found := _CLASS.match(glob, at)):
            at = found.end()
            pieces[-1] += _class(found)
        elif char == b"\\" and at < len(glob):
            pieces[-1] += re.escape(glob[at : at + 1])
            at += 1
        else:
            pieces[-1] += re.escape(char)
    first, *between = pieces
    if not between:
        return first
    last = between.pop()
    return first + b"".join(b"(?>[^/]*?" + piece + b")" for piece in between if piece) + b"[^/]*" + last


_CLASS = re.compile(rb"([!^]?)(\]?[^\]/]*)\]")


def _class(found: re.Match[bytes]) -> bytes:
    """Return the regular expression of `[...]`; a range that runs backwards matches nothing, as in a shell."""
    members = b""
    body = found[2]
    at = 0
    while at < len(body):
        first = body[at : at + 1]
        if body[at + 1 : at + 2] == b"-" and at + 2 < len(body):
            last = body[at + 2 : at + 3]
            if first <= last:
                members += re.escape(first) + b"-" + re.escape(last)
            at += 3
        else:
            members += re.escape(first)
            at += 1
    if found[1]:
        return b"[^/" + members + b"]"
    return b"[" + members + b"]" if members else b"(?!)"
