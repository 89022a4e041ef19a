"""Reads a file up to a bound."""

from __future__ import annotations

from grassq.errors import BadInput

#: Stands for stdin.
STDIN = "-"


def read_file(path: str, most: int, hint: str) -> bytes:
    """Return the content of a file; raise BadInput if it cannot be read or has more than `most` bytes.

    `hint` is what to do about a file that is too large.
    """
    return _read(path, path, most, hint)


def read_input(path: str, most: int, hint: str) -> bytes:
    """Return the content of a file as `read_file` does; `-` is stdin."""
    return _read("stdin", 0, most, hint) if path == STDIN else _read(path, path, most, hint)


def _read(shown: str, source: str | int, most: int, hint: str) -> bytes:
    try:
        with open(source, "rb", closefd=source != 0) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise BadInput(f"{shown} cannot be read: {error.strerror}") from error
    if len(content) > most:
        unit, size = ("MiB", most >> 20) if most >= 1 << 20 else ("KiB", most >> 10)
        raise BadInput(f"{shown} is larger than {size} {unit}; {hint}")
    return content
