"""Reads the points of `--each` and of a sweep from a file or from stdin."""

from __future__ import annotations

import json
from pathlib import Path

from grassq.core.sweeps.points import FILE_BYTES_MAX, Points, kind_of, read_points
from grassq.inputs.files import STDIN, read_input


def read_points_file(typed: str, folder: Path | None = None) -> Points:
    """Return the points of a file, which is relative to a folder; raise BadInput with the file and the line."""
    kind, path = kind_of(typed)
    if path != STDIN and folder is not None:
        path = str(folder / path)
    content = read_input(path, FILE_BYTES_MAX, "take it in parts (nothing was enqueued)")
    return read_points(content, kind, "stdin" if path == STDIN else path)


def points_members(typed: str) -> str:
    """Return the points of `--each` as members of the body of a request."""
    points = read_points_file(typed)
    path = kind_of(typed)[1]
    file = "stdin" if path == STDIN else path
    return f'"points":{json.dumps(points.columns())},"points_file":{json.dumps(file)}'
