"""Tables of jobs in memory: an order of ids per query and sort, built in steps, patched from the ring of changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct

from grassq.broker.engine import Engine
from grassq.broker.inbox import WORKS_FOR
from grassq.broker.subscriptions import Position
from grassq.broker.windows import reading
from grassq.broker.windows.job_order import JobOrder, RowCollector, TableSort
from grassq.core.query.query import JobFacts, Query
from grassq.errors import Refused
from grassq.web.access.turns import CallerTurns

#: Tables that are kept for one caller, and the callers for which any are kept.
TABLES_PER_CALLER, CALLERS_MAX = 8, 64
#: What all tables take of the memory; the one used longest ago is dropped first.
TABLES_BYTES_MAX = 64 << 20
#: The sorts that are prepared once all jobs are looked at: those that need no other columns than the job's own.
PREPARED_SORTS: tuple[TableSort, ...] = ("name", "queue", "state", "priority", "started", "finished", "duration")
#: They are read at once, this long after the first rows were asked for, and kept if they take no more than this.
PREPARE_AFTER_S, PREPARED_BYTES_MAX = 0.5, 32 << 20
#: Stands for a caller: what is prepared waits in its own turn.
PREPARED = "prepared tables"
#: How long a request waits for a table that is being read; then the answer has what was read so far.
BUILD_WAIT_S = 1.0
#: Tables that are read at the same time, one of each caller; others wait.
BUILDS_AT_ONCE = 4
#: Sorting this many rows takes longer than a switch to a thread.
ROWS_ON_LOOP = 20_000
#: A table whose rows were lost again and again while it was read is answered as it is after this many tries.
TRIES_MAX = 3
#: A query about times is answered as of a time that is rounded to a part of its duration, but not finer than this.
TIME_PARTS, TIME_STEP_MIN_S = 200, 5.0

T = TypeVar("T")
#: Called while a table is read.
Waited = Callable[[], Awaitable[None]]


class TableKey(Struct, frozen=True):
    """What a table is of: a query, a sort, and the time of a query about times."""

    query: Query
    sort: TableSort
    at: float | None = None


class View(Struct, frozen=True):
    """An order of jobs to look at, with what is known of it; not to be kept."""

    order: JobOrder
    #: Whether every job that matches is in the order.
    is_exact: bool
    #: The position in the changes up to which the order is right.
    position: Position


class _Table:
    """One order and how it is kept."""

    def __init__(self, key: TableKey, position: Position) -> None:
        self.key = key
        self.columns = reading.columns_of(key.query, key.sort)
        self.lock = asyncio.Lock()
        self.position = position
        self.order: JobOrder | None = None
        self.rows = RowCollector(key.sort)
        #: Whether jobs were left out because there are too many.
        self.is_cut = False
        self.build: asyncio.Task[None] | None = None
        #: How many requests wait for the build.
        self.waiting = 0

    @property
    def size(self) -> int:
        """About how many bytes of the memory the table takes."""
        return self.rows.size if self.order is None else self.order.size


class JobWindows:
    """Every table, shared by callers, as every caller may see every job. Used from the event loop only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: By key, the one used longest ago first.
        self._tables: OrderedDict[TableKey, _Table] = OrderedDict()
        self._used_by: OrderedDict[str, OrderedDict[TableKey, None]] = OrderedDict()
        self._builds = asyncio.Semaphore(BUILDS_AT_ONCE)
        self._turns = CallerTurns(1)
        self._preparing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._tables)

    async def look(
        self,
        query: Query,
        sort: TableSort,
        use: Callable[[View], T],
        waited: Waited | None = None,
        *,
        looks_at_all: bool = False,
    ) -> T:
        """Return what `use` finds in the table of a query, which is brought up to date before.

        With `waited`, which is awaited now and then, the table is complete, however long that takes. A `use` that
        `looks_at_all` rows one by one works in a thread if they are many.
        """
        table = self._take(await self._key(query, sort))
        for _ in range(TRIES_MAX):
            while table.order is None and not await self._wait_for(table):
                if waited is None:
                    return await self._use_part(table, use)
                await waited()
            async with table.lock:
                if await self._patch(table) and table.order is not None:
                    self._trim()
                    view = View(table.order, not table.is_cut, table.position)
                    return await _in_thread(len(table.order) if looks_at_all else 0, partial(use, view))
        if waited is not None:
            raise Refused("jobs change faster than they can be read; try again in a moment")
        return await self._use_part(table, use)

    async def _use_part(self, table: _Table, use: Callable[[View], T]) -> T:
        # Copied here, where rows are added: a copy in a thread could have an id without its key.
        rows = table.rows.copy()
        order = await _in_thread(len(rows), lambda: JobOrder(rows))
        return use(View(order, False, table.position))

    def prepare(self, query: Query, sort: TableSort) -> None:
        """Begin to read a table that will probably be asked for; it must not be about times or the last job."""
        table = self._take(TableKey(query, sort))
        if table.order is None:
            self._begin(table)

    def prepare_sorts(self, query: Query) -> None:
        """Begin to read the tables of other sorts, soon and in the background; the query must not be about times."""
        if self._preparing is None or self._preparing.done():
            keys = [TableKey(query, sort) for sort in PREPARED_SORTS]
            if missing := [key for key in keys if key not in self._tables]:
                self._preparing = asyncio.create_task(self._read_sorts(query, missing))
                # The next caller reads a table that could not be prepared.
                self._preparing.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def close(self) -> None:
        """End all reading."""
        builds = [table.build for table in self._tables.values() if table.build is not None]
        builds += [] if self._preparing is None else [self._preparing]
        for build in builds:
            build.cancel()
        await asyncio.gather(*builds, return_exceptions=True)

    async def _key(self, query: Query, sort: TableSort) -> TableKey:
        if query.back:
            query = await self._engine.read(partial(reading.resolve, query=query))
        if not query.depends_on_time:
            return TableKey(query, sort)
        spans = [bound.value for bound in query.bounds if bound.key in ("age", "duration")]
        spans += [query.since_s] if query.since_s is not None else []
        step = max(TIME_STEP_MIN_S, min(spans) / TIME_PARTS)
        now = await self._engine.read(lambda batch: batch.now, short=True)
        return TableKey(query, sort, now // step * step)

    def _take(self, key: TableKey) -> _Table:
        """Return the table of a key, and note that the caller uses it; forget what was used longest ago."""
        caller = WORKS_FOR.get()
        used = self._used_by.setdefault(caller, OrderedDict())
        self._used_by.move_to_end(caller)
        used[key] = None
        used.move_to_end(key)
        while len(used) > TABLES_PER_CALLER:
            used.popitem(last=False)
        while len(self._used_by) > CALLERS_MAX:
            self._used_by.popitem(last=False)
        if (table := self._tables.get(key)) is None:
            table = self._tables[key] = _Table(key, self._engine.subscriptions.position)
        self._tables.move_to_end(key)
        wanted = {each for keys in self._used_by.values() for each in keys}
        for other in [each for each in self._tables if each not in wanted]:
            self._drop(other)
        return table

    def _trim(self) -> None:
        """Drop tables until all take no more than TABLES_BYTES_MAX, except the one that is used now."""
        total = sum(table.size for table in self._tables.values())
        while total > TABLES_BYTES_MAX and len(self._tables) > 1:
            total -= self._drop(next(iter(self._tables)))

    def _drop(self, key: TableKey) -> int:
        table = self._tables.pop(key)
        if table.build is not None and not table.waiting:
            table.build.cancel()
        for used in self._used_by.values():
            used.pop(key, None)
        return table.size

    def _begin(self, table: _Table) -> asyncio.Task[None]:
        if table.build is None or table.build.done():
            table.build = asyncio.create_task(self._read(table))
            # A failure is told to the next caller that waits for the table.
            table.build.add_done_callback(lambda build: build.cancelled() or build.exception())
        return table.build

    async def _wait_for(self, table: _Table) -> bool:
        """Wait for a table that is being read; return False if that takes too long."""
        build = self._begin(table)
        table.waiting += 1
        try:
            await asyncio.wait({build}, timeout=BUILD_WAIT_S)
        finally:
            table.waiting -= 1
        if not build.done():
            return False
        build.result()
        return True

    async def _read(self, table: _Table) -> None:
        """Read a table from the beginning."""
        async with self._turns.of(WORKS_FOR.get()), self._builds:
            table.position = self._engine.subscriptions.position
            table.rows, table.is_cut = RowCollector(table.key.sort), False
            query, columns, at = table.key.query, table.columns, table.key.at
            left, looked_at = reading.sources_of(query), 0
            # A job that changes its state between two steps is in two sources; the first row is patched later.
            seen: set[int] | None = set() if len(left) > 1 else None
            while left:
                if looked_at >= reading.LOOKED_AT_MAX:
                    table.is_cut = True
                    break
                step = await self._engine.read(
                    partial(reading.read_step, query=query, columns=columns, left=left, at=at)
                )
                left, looked_at = step.left, looked_at + step.looked_at
                table.rows.add(step.found if seen is None else reading.unseen(step.found, seen), step.now)
            rows = table.rows
            table.order = await _in_thread(len(rows), lambda: JobOrder(rows))

    async def _read_sorts(self, query: Query, keys: list[TableKey]) -> None:
        """Read all jobs once, and make a table of each sort."""
        WORKS_FOR.set(PREPARED)
        await asyncio.sleep(PREPARE_AFTER_S)
        made = [RowCollector(key.sort) for key in keys]
        async with self._builds:
            position = self._engine.subscriptions.position
            columns = max((reading.columns_of(query, key.sort) for key in keys), key=lambda columns: columns.first)
            left = reading.sources_of(query)
            while left:
                read = partial(reading.read_step, query=query, columns=columns, left=left, at=None)
                step = await self._engine.read(read)
                left = step.left
                for rows in made:
                    rows.add(step.found, step.now)
                    await asyncio.sleep(0)
                if sum(rows.size for rows in made) > PREPARED_BYTES_MAX:
                    return
        for key, rows in zip(keys, made, strict=True):
            order = await _in_thread(len(rows), partial(JobOrder, rows))
            if key in self._tables:
                continue  # a request has asked for this table meanwhile
            self._tables[key] = table = _Table(key, position)
            table.rows, table.order = rows, order
            self._used_by.setdefault(PREPARED, OrderedDict())[key] = None
        self._trim()

    async def _patch(self, table: _Table) -> bool:
        """Bring a table up to date; return False if it must be read again."""
        order = table.order
        if order is None:
            return False
        position = self._engine.subscriptions.position
        changes = self._engine.subscriptions.since(table.position)
        changed = None if changes is None else reading.changed_ids(changes)
        if changed is None:
            table.order, table.rows = None, RowCollector(table.key.sort)
            return False
        if changed := changed.union(order.moving()):
            jobs, now = await self._changed(table, sorted(changed))
            await _in_thread(len(order), lambda: order.patch(changed, jobs, now))
        table.position = position
        return True

    async def _changed(self, table: _Table, ids: list[int]) -> tuple[list[JobFacts], float]:
        jobs: list[JobFacts] = []
        now = 0.0
        size = reading.step_rows(table.key.query, table.columns)
        for first in range(0, len(ids), size):
            some = ids[first : first + size]
            read = partial(
                reading.read_changed, query=table.key.query, columns=table.columns, ids=some, at=table.key.at
            )
            found, now = await self._engine.read(read)
            jobs += found
        return jobs, now


async def _in_thread(rows: int, work: Callable[[], T]) -> T:
    """Do what takes as long as there are rows: at once if they are few, else in a thread."""
    return work() if rows <= ROWS_ON_LOOP else await asyncio.to_thread(work)
