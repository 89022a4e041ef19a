"""The jobs of a table in order: ids and sort keys in flat arrays, which can be patched."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from heapq import merge
from itertools import islice
from operator import lt
from typing import Any, Literal, get_args

from msgspec import Struct

from grassq.core.model import State
from grassq.core.query.query import JobFacts, duration_of

#: Up to this many changed rows are taken out and put in one by one; of more rows all arrays are written again.
FEW_ROWS = 48
#: How many rows are sorted in one call: 30 ms.
RUN_ROWS = 100_000

TableSort = Literal["id", "name", "queue", "state", "priority", "started", "finished", "duration", "worker"]
TABLE_SORTS: tuple[TableSort, ...] = get_args(TableSort)
_TEXTS = ("name", "queue", "worker")
_STATES = [state.value for state in State]
_STATE_CODES = {state: code for code, state in enumerate(_STATES)}
_HOLDING_CODES = (_STATE_CODES["placed"], _STATE_CODES["running"])
_ID_BYTES = array("q").itemsize
#: What a row takes: id, key, state and queue.
ROW_BYTES = _ID_BYTES + 8 + 1 + 4

_NUMBERS: dict[str, Callable[[JobFacts, float], float | None]] = {
    "id": lambda job, now: 0.0,
    "state": lambda job, now: _STATE_CODES[job.state],
    "priority": lambda job, now: job.priority,
    "started": lambda job, now: job.started,
    "finished": lambda job, now: job.finished,
    "duration": duration_of,
}
_TEXT_KEYS: dict[str, Callable[[JobFacts], str | None]] = {
    "name": lambda job: job.name,
    "queue": lambda job: job.queue,
    "worker": lambda job: job.worker,
}


class NameGroup(Struct, frozen=True):
    """The jobs of one name."""

    name: str
    #: How many jobs are in each state.
    states: dict[str, int]
    oldest: int
    newest: int
    #: The queue of the newest job.
    queue: str


class RowCollector:
    """Rows in any order. Rows without a sort key are marked."""

    def __init__(self, sort: TableSort) -> None:
        self.sort: TableSort = sort
        self.ids = array("q")
        self.keys: array[float] | list[str] = list[str]() if sort in _TEXTS else array("d")
        #: 1 for a row that has a key.
        self.keyed = bytearray()
        self.states = bytearray()
        self.queues = array("I")
        self.queue_names: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, jobs: Sequence[JobFacts], now: float) -> None:
        """Add rows."""
        names = self.queue_names
        for queue in {job.queue for job in jobs}.difference(names):
            names[queue] = len(names)
        self.ids.extend([job.id for job in jobs])
        self.states.extend([_STATE_CODES[job.state] for job in jobs])
        self.queues.extend([names[job.queue] for job in jobs])
        if self.sort == "id":
            self.keyed.extend(bytes((1,)) * len(jobs))
            assert not isinstance(self.keys, list)
            self.keys.extend([0.0] * len(jobs))
            return
        keys = [self.key_of(job, now) for job in jobs]
        self.keyed.extend([key is not None for key in keys])
        if isinstance(self.keys, list):
            self.keys.extend([str(key or "") for key in keys])
        else:
            self.keys.extend([float(key or 0.0) for key in keys])

    def key_of(self, job: JobFacts, now: float) -> float | str | None:
        """Return the sort key of a job; None if it has none. Equal texts are one object."""
        if self.sort in _TEXT_KEYS:
            text = _TEXT_KEYS[self.sort](job)
            return None if text is None else self._texts.setdefault(text, text)
        return _NUMBERS[self.sort](job, now)

    def copy(self) -> RowCollector:
        """Return a copy of the rows so far."""
        made = RowCollector(self.sort)
        made.ids, made.keys, made.keyed = self.ids[:], self.keys[:], self.keyed[:]
        made.states, made.queues, made.queue_names = self.states[:], self.queues[:], dict(self.queue_names)
        return made

    @property
    def size(self) -> int:
        """About how many bytes of the memory the rows take."""
        return len(self.ids) * (ROW_BYTES + 1) + sum(map(len, self._texts)) + 60 * len(self._texts)


def _sorted(places: list[int], key: Callable[[int], Any]) -> list[int]:
    """Sort rows by key; many of them in runs that are then merged, as no other thread works during one call of sort."""
    if len(places) <= RUN_ROWS:
        places.sort(key=key)
        return places
    runs = [sorted(places[first : first + RUN_ROWS], key=key) for first in range(0, len(places), RUN_ROWS)]
    return [*merge(*runs, key=key)]


class JobOrder:
    """Rows sorted by key and then by id, ascending; rows without a key are behind all others, in either direction."""

    def __init__(self, rows: RowCollector) -> None:
        self._rows = rows
        self.keyed = 0
        self._sort()

    def __len__(self) -> int:
        return len(self._rows.ids)

    @property
    def size(self) -> int:
        """About how many bytes of the memory the order takes."""
        return self._rows.size

    def slice(self, first: int, count: int, *, descending: bool) -> list[int]:
        """Return the ids of some rows."""
        total = len(self)
        places = range(first, min(first + count, total))
        if not descending:
            return [self._rows.ids[place] for place in places]
        return [
            self._rows.ids[self.keyed - 1 - place if place < self.keyed else total - 1 - place + self.keyed]
            for place in places
        ]

    def ids(self) -> array[int]:
        """Return the ids of all rows, ascending."""
        return array("q", sorted(self._rows.ids))

    def state_counts(self) -> dict[str, int]:
        """Return how many rows are in each state that has rows."""
        counts = {state: self._rows.states.count(code) for state, code in _STATE_CODES.items()}
        return {state: count for state, count in counts.items() if count}

    def queue_counts(self) -> dict[str, int]:
        """Return how many rows each queue has, the largest first."""
        counts = Counter(self._rows.queues)
        names = {code: name for name, code in self._rows.queue_names.items()}
        return {names[code]: count for code, count in counts.most_common()}

    def name_groups(self, least: int) -> list[NameGroup]:
        """Return the jobs of each name that has `least` or more, the newest first; the rows are sorted by name."""
        assert self._rows.sort == "name"
        rows, keys = self._rows, self._rows.keys
        codes = {code: name for name, code in rows.queue_names.items()}
        groups = []
        first = 0
        while first < self.keyed:
            end = bisect_right(keys, keys[first], first, self.keyed)
            if end - first >= least:
                counts = Counter(rows.states[first:end])
                states = {_STATES[code]: count for code, count in sorted(counts.items())}
                queue = codes[rows.queues[end - 1]]
                groups.append(NameGroup(str(keys[first]), states, rows.ids[first], rows.ids[end - 1], queue))
            first = end
        return sorted(groups, key=lambda group: -group.newest)

    def moving(self) -> list[int]:
        """Return the jobs whose key changes with time."""
        if self._rows.sort != "duration":
            return []
        ids, states = self._rows.ids, self._rows.states
        found = []
        for code in _HOLDING_CODES:
            place = states.find(code)
            while place >= 0:
                found.append(ids[place])
                place = states.find(code, place + 1)
        return found

    def patch(self, changed: Collection[int], jobs: Sequence[JobFacts], now: float) -> None:
        """Take out the jobs that changed, and put in those of them that match, as they are now."""
        if len(changed) <= FEW_ROWS:
            packed: list[bytes] = []

            def text() -> bytes:
                # A search in the bytes of all ids takes far less than a look at every id. One copy is enough while
                # rows are only taken out at the end.
                if not packed:
                    packed.append(self._rows.ids.tobytes())
                return packed[0]

            places = [place for id_ in changed if (place := self._find(id_, text)) is not None]
            for place in sorted(places, reverse=True):
                self._take_out(place)
            for job in jobs:
                self._put_in(job, now)
            return
        gone = {*changed}
        kept = [place for place, id_ in enumerate(self._rows.ids) if id_ not in gone]
        self._reorder(kept)
        self._rows.add(jobs, now)
        self._sort()

    def _find(self, id_: int, text: Callable[[], bytes]) -> int | None:
        ids = self._rows.ids
        if self._rows.sort == "id":
            place = bisect_left(ids, id_)
            return place if place < len(ids) and ids[place] == id_ else None
        wanted, written = array("q", (id_,)).tobytes(), text()
        at = written.find(wanted)
        while at >= 0 and at % _ID_BYTES:
            at = written.find(wanted, at + 1)
        return at // _ID_BYTES if at >= 0 else None

    def _take_out(self, place: int) -> None:
        rows = self._rows
        self.keyed -= rows.keyed[place]
        for column in (rows.ids, rows.keys, rows.keyed, rows.states, rows.queues):
            del column[place]

    def _put_in(self, job: JobFacts, now: float) -> None:
        rows = self._rows
        key = rows.key_of(job, now)
        if key is None:
            place = bisect_left(rows.ids, job.id, self.keyed)
        else:
            low = bisect_left(rows.keys, key, 0, self.keyed)
            high = bisect_right(rows.keys, key, low, self.keyed)
            place = bisect_left(rows.ids, job.id, low, high)
        one = RowCollector(rows.sort)
        one.queue_names = rows.queue_names
        one.add((job,), now)
        rows.ids.insert(place, job.id)
        rows.keys.insert(place, one.keys[0])  # type: ignore[arg-type]
        rows.keyed.insert(place, one.keyed[0])
        rows.states.insert(place, one.states[0])
        rows.queues.insert(place, one.queues[0])
        self.keyed += key is not None

    def _sort(self) -> None:
        rows = self._rows
        self.keyed = sum(rows.keyed)
        if len(rows) > 1 and rows.ids[0] > rows.ids[-1]:
            # Rows are mostly read from the newest job on.
            self._reverse()
        is_rising = all(map(lt, rows.ids, islice(rows.ids, 1, None)))
        if is_rising and rows.sort == "id":
            return
        order: Sequence[int] = range(len(rows))
        if not is_rising:
            order = sorted(order, key=rows.ids.__getitem__)
        if rows.sort != "id":
            with_key = [place for place in order if rows.keyed[place]]
            with_key = _sorted(with_key, rows.keys.__getitem__)
            order = with_key + [place for place in order if not rows.keyed[place]]
        self._reorder(order)

    def _reverse(self) -> None:
        rows = self._rows
        rows.ids, rows.keys, rows.keyed = rows.ids[::-1], rows.keys[::-1], rows.keyed[::-1]
        rows.states, rows.queues = rows.states[::-1], rows.queues[::-1]

    def _reorder(self, order: Sequence[int]) -> None:
        """Put the rows into another order, or keep only some of them."""
        rows, old = self._rows, self._rows.copy()
        for column in (rows.ids, rows.keys, rows.keyed, rows.states, rows.queues):
            del column[:]
        # In parts, as in `_sorted`.
        for first in range(0, len(order), RUN_ROWS):
            part = order[first : first + RUN_ROWS]
            rows.ids.extend(map(old.ids.__getitem__, part))
            keys: Any = map(old.keys.__getitem__, part)
            rows.keys.extend(keys)
            rows.keyed.extend(map(old.keyed.__getitem__, part))
            rows.states.extend(map(old.states.__getitem__, part))
            rows.queues.extend(map(old.queues.__getitem__, part))
