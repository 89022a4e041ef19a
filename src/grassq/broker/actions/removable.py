"""What a clean would remove, for the question before it."""

from __future__ import annotations

from collections import Counter
from typing import NotRequired, TypedDict

from grassq.broker.actions.bulk import STEP_JOBS, Action
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import timestamp
from grassq.broker.selection import Reading, read


class KeepSettingDocument(TypedDict):
    """What one setting would remove."""

    #: The value of the setting.
    set: str
    count: int
    bytes: int


class KeepDocument(TypedDict):
    """What the settings about old jobs would remove now."""

    count: int
    bytes: int
    #: By setting.
    by: dict[str, KeepSettingDocument]


class RemovableDocument(TypedDict):
    """What a clean would remove now."""

    count: int
    ids: list[int]
    #: How many jobs of each state.
    states: dict[str, int]
    #: What their folders take of the disk.
    bytes: int
    #: When the first and the last of them ended.
    oldest: str | None
    newest: str | None
    #: The time up to which this is complete, in seconds since the epoch: `ended_by` of the clean itself.
    ended_by: float | None
    keep: NotRequired[KeepDocument]


class Removable:
    """What a clean would remove: the jobs that were read so far."""

    def __init__(self) -> None:
        #: What their folders take of the disk.
        self.bytes = 0
        self._ids: list[int] = []
        self._states: Counter[str] = Counter()
        self._ended: list[float] = []
        self._ended_by: float | None = None

    def read(self, clean: Action, reading: Reading, batch: Batch) -> tuple[list[int], Reading]:
        """Add the next selected jobs that would be removed; return their ids and the reading after them."""
        # The time of the first look: jobs that end during the reading may or may not be counted.
        self._ended_by = self._ended_by or batch.now
        some, reading = read(batch, reading, STEP_JOBS)
        jobs = [job for job, named in some if clean.why_not(batch, job, named) is None]
        jobs = [job for job in jobs if job.finished is not None and job.finished <= self._ended_by]
        self._states.update(str(job.state) for job in jobs)
        ids, ended = [job.id for job in jobs], [job.finished for job in jobs if job.finished is not None]
        self._ids += ids
        self._ended = [min(self._ended + ended), max(self._ended + ended)] if self._ended + ended else []
        return ids, reading

    def document(self) -> RemovableDocument:
        """Return the jobs as a document."""
        oldest, newest = self._ended or (None, None)
        return {
            "count": len(self._ids),
            "ids": self._ids,
            "states": dict(self._states),
            "bytes": self.bytes,
            "oldest": timestamp(oldest),
            "newest": timestamp(newest),
            "ended_by": self._ended_by,
        }
