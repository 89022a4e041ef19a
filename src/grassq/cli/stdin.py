"""The lines of `grass enqueue --stdin`."""

from __future__ import annotations

import os

from grassq.errors import BadInput

#: What is sent at once: with the environment it stays below the 64 MiB a daemon takes, however it is written.
BYTES_MAX = 45 << 20
READ_SIZE = 1 << 20


def read_all() -> bytes:
    """Everything on stdin, until it is closed; at a terminal that is ctrl-D."""
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
