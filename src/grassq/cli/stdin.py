"""Reads the lines of `grass enqueue --stdin`."""

from __future__ import annotations

import os

from grassq.errors import BadInput

#: Bytes of one submission. In any encoding and with the environment this stays below the daemon's limit of 64 MiB.
BYTES_MAX = 45 << 20
READ_SIZE = 1 << 20


def read_all() -> bytes:
    """Return all bytes of stdin, up to its end; raise BadInput above BYTES_MAX."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := os.read(0, READ_SIZE):
            parts.append(part)
            size += len(part)
            if size > BYTES_MAX:
                raise BadInput(
                    f"stdin holds more than {BYTES_MAX:,} bytes; enqueue the lines in parts (nothing is stored)"
                )
    except OSError as error:
        raise BadInput(f"stdin cannot be read: {error.strerror}") from error
    return b"".join(parts)
