"""A log as a file to download: its name, and one range of its bytes."""

from __future__ import annotations

import re

from msgspec import Struct

from grassq.core.model import Job
from grassq.web.logs.tail import OFFSET_MAX, Source

_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,19})-(?P<last>[0-9]{0,19})")
#: Characters of a job's name that a file name may have on every system.
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
NAME_CHARS_MAX = 60


class ByteRange(Struct, frozen=True):
    """A range of the bytes of a log; no bytes if the log ends before it."""

    first: int
    count: int
    size: int

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer with this range."""
        if not self.count:
            return {"Content-Range": f"bytes */{self.size}"}
        last = self.first + self.count - 1
        return {"Content-Range": f"bytes {self.first}-{last}/{self.size}", "Content-Length": str(self.count)}


def file_name(job: Job, attempt: int, stream: str) -> str:
    """Return the name of a downloaded log: of safe characters only, whatever the job is called."""
    name = _SAFE.sub("_", job.name or "")[:NAME_CHARS_MAX].strip("._-")
    number = f"-attempt-{attempt}" if job.attempt > 1 else ""
    return f"job-{job.id}{'-' if name else ''}{name}{number}{'' if stream == 'log' else f'.{stream}'}.log"


def is_range(asked: str | None) -> bool:
    """Tell whether a header asks for one range of bytes; any other header is ignored, as the standard allows."""
    found = _RANGE.fullmatch(asked or "")
    return found is not None and bool(found["first"] or found["last"])


async def find_range(asked: str, source: Source, log: tuple[int, int, str]) -> ByteRange | None:
    """Return the range that a header asks for; None for a log that has lost its middle: the whole of it is sent."""
    found = _RANGE.fullmatch(asked)
    assert found is not None
    if source.cut_at is not None or await source.reader.cut(*log) is not None:
        return None
    _, size = await source.reader.read(*log, OFFSET_MAX)
    if found["first"]:
        first, last = int(found["first"]), min(int(found["last"] or size), size - 1)
    else:
        first, last = max(0, size - int(found["last"])), size - 1
    return ByteRange(first, max(0, last - first + 1), size)
