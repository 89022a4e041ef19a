"""Reads the points of `--each` and of a sweep from a file or from stdin."""

from __future__ import annotations

import json
from pathlib import Path

from grassq.core.sweeps.points import FILE_BYTES_MAX, Points, kind_of, read_points
from grassq.errors import BadInput

_STDIN = "-"


def read_points_file(typed: str, folder: Path | None = None) -> Points:
    """Return the points of a file, which is relative to a folder; raise BadInput with the file and the line."""
    kind, path = kind_of(typed)
    if path != _STDIN and folder is not None:
        path = str(folder / path)
    content = read_file(path, FILE_BYTES_MAX)
    return read_points(content, kind, "stdin" if path == _STDIN else path)


def read_file(path: str, most: int) -> bytes:
    """Return the content of a file, or of stdin; raise BadInput if it cannot be read or is too large."""
    shown = "stdin" if path == _STDIN else path
    try:
        with open(0 if path == _STDIN else path, "rb", closefd=path != _STDIN) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise BadInput(f"{shown} cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise BadInput(f"{shown}: more than {most:,} bytes; take it in parts (nothing was enqueued)")
    return content


def points_members(typed: str) -> str:
    """Return the points of `--each` as members of the body of a request."""
    points = read_points_file(typed)
    path = kind_of(typed)[1]
    file = "stdin" if path == _STDIN else path
    return f'"points":{json.dumps(points.columns())},"points_file":{json.dumps(file)}'
