"""Run `grass WORDS` and count the frames this process sends over links: `python -m bench.counting FILE WORDS`.

FILE has the count so far, as 8 bytes; the measurement maps it and reads it when it likes.
"""

from __future__ import annotations

import mmap
import struct
import sys
from pathlib import Path

from grassq.cli.main import main as grass
from grassq.link.connection import FramedConnection

COUNT = struct.Struct("<q")


def read(file: Path) -> int:
    """Return the count so far."""
    return int(COUNT.unpack(file.read_bytes())[0])


def count_frames(file: Path) -> None:
    """Count every frame that is queued for a link into `file`."""
    file.write_bytes(COUNT.pack(0))
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), COUNT.size)
    send = FramedConnection.send

    def counted(self: FramedConnection, body: object, *, urgent: bool = False) -> bool:
        COUNT.pack_into(memory, 0, COUNT.unpack_from(memory)[0] + 1)
        return send(self, body, urgent=urgent)

    FramedConnection.send = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    count_frames(Path(sys.argv[1]))
    sys.exit(grass(sys.argv[2:]))
