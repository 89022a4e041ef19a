"""What a notifier remembers over a restart: the last deliveries, and which sweeps and queues were told of already."""

from __future__ import annotations

import contextlib
import logging
from collections import deque

import msgspec
from msgspec import Struct

from grassq import atomic_files

log = logging.getLogger(__name__)

FILE_NAME = "notify.json"
#: The deliveries that are kept, and the sweeps and queues; older ones are forgotten.
DELIVERIES_MAX = 200
MARKS_MAX = 2000
FILE_MAX = 1 << 20


class PastDelivery(Struct, frozen=True):
    """One notice that was sent, or given up."""

    key: str
    at: float
    #: The target without its secrets.
    to: str
    event: str
    title: str
    state: str
    tries: int
    error: str = ""


class _Saved(Struct):
    deliveries: list[PastDelivery] = []
    marks: dict[str, int] = {}


class NotifyRecord:
    """Kept in memory and in a file for its owner; when the file cannot be read, notices may be repeated."""

    def __init__(self, folder: str | None) -> None:
        """Read the file in `folder`; None keeps nothing."""
        self._folder = folder
        saved = self._load()
        self.deliveries: deque[PastDelivery] = deque(saved.deliveries, maxlen=DELIVERIES_MAX)
        #: By sweep or queue: the number of the stored end with which it was told.
        self._marks = saved.marks
        self._is_changed = False

    def _load(self) -> _Saved:
        if self._folder is None:
            return _Saved()
        try:
            data = atomic_files.read(f"{self._folder}/{FILE_NAME}", FILE_MAX)
            return _Saved() if data is None else msgspec.json.decode(data, type=_Saved)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("notify_record_unreadable error=%s; a notice may be sent twice", error)
            return _Saved()

    def add(self, delivery: PastDelivery) -> None:
        """Keep a delivery that is over."""
        self.deliveries.append(delivery)
        self._is_changed = True

    def was_sent(self, key: str) -> bool:
        """Tell whether a delivery was sent, as far back as deliveries are kept."""
        return any(past.key == key and past.state == "sent" for past in self.deliveries)

    def mark(self, what: str, number: int) -> bool:
        """Note that something is told with this end; return False if it was told with another one."""
        if self._marks.get(what, number) != number:
            return False
        self._marks.pop(what, None)
        self._marks[what] = number
        while len(self._marks) > MARKS_MAX:
            del self._marks[next(iter(self._marks))]
        self._is_changed = True
        return True

    def last(self, what: str) -> int:
        """Return the end with which something was told; 0 if it was not."""
        return self._marks.get(what, 0)

    def unmark(self, what: str) -> None:
        """Forget that something was told."""
        self._is_changed |= self._marks.pop(what, None) is not None

    def save(self) -> None:
        """Write what has changed."""
        if self._folder is None or not self._is_changed:
            return
        self._is_changed = False
        data = msgspec.json.encode(_Saved(list(self.deliveries), self._marks))
        with contextlib.suppress(OSError):
            atomic_files.write_aside(self._folder, FILE_NAME, data, sync=False)
