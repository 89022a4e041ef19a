"""Find the jobs an action names, page by page, so that no selection holds the engine for long."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core.model import FINAL, Job, State
from grassq.core.names import ALL, STATES, shown
from grassq.core.query.selecting import selects, traits_of
from grassq.core.syntax.numbers import id_ranges
from grassq.core.syntax.options import closest
from grassq.core.syntax.selectors import (
    AllJobs,
    AllOf,
    AnyOf,
    ByIds,
    ByName,
    ByProject,
    ByQueue,
    BySweep,
    ByTag,
    ByToken,
    ByWord,
    LastJob,
    Part,
    Selector,
    Since,
)
from grassq.core.syntax.selectors import ByState as InState
from grassq.errors import NotFound, Refused
from grassq.store.base import JobScan

#: `present` reads at most this many jobs.
SELECTED_MAX = 1_000_000
#: A page reads at least this many jobs of each selector, however many selectors there are.
SHARE_MIN = 16
#: The most rows of one statement, as rows may be large.
ROWS_AT_ONCE = 64
#: The same for rows in brief, and how many of these cost as much as a whole job.
BRIEF_AT_ONCE, BRIEF_PER_WHOLE = 1000, 16
#: What costs as much as reading one more job: bytes of commands, jobs that are counted off for `@~N`, and ids that are
#: looked at for succeeded jobs, which no index lists.
BYTES_PER_JOB, COUNTED_PER_JOB, LOOKED_AT_PER_JOB = 4000, 100, 40
#: A word that selects nothing is compared with the names of this many of the newest jobs; a command that waits looks
#: for the last submission of joined parts among as many.
NEAR_JOBS = 200
#: In place of a time: ended jobs count whenever they were submitted.
ANY_TIME = -1.0
UNFINISHED = tuple(state.value for state in State if state not in FINAL)


class Selected(NamedTuple):
    """A job that some selectors name, and whether one of them names it by its id."""

    job: Job
    named: bool


class SelectorState(Struct, frozen=True):
    """One selector of a reading, and how far it was read."""

    typed: Selector
    #: What the selector means; None until it is first read.
    meant: Selector | None = None
    #: The id up to which the selector was read.
    after: int = 0
    found: bool = False
    #: Which of the read jobs count, in a reading that is `live`: those of this queue, and of the ended jobs only those
    #: submitted at this time, in seconds since the epoch.
    queue: str | None = None
    ended_of: float | None = None


class Reading(Struct, frozen=True):
    """How far the jobs of some selectors were read. Jobs with ids above `upto` were submitted after the command."""

    #: The selectors that were not read to their end: first those that matched no job yet, then the least read.
    sources: tuple[SelectorState, ...]
    upto: int
    #: A token that sees only the jobs it submitted; None sees all jobs.
    visible_to: str | None = None
    #: Whether a selector that matches no job is an error.
    required: bool = True
    #: Whether `all`, a queue and a name mean jobs that have not ended; see `_meant_live`.
    live: bool = False
    #: Jobs that were read and not returned yet, by id.
    pool: dict[int, Selected] = {}

    @property
    def is_over(self) -> bool:
        """Whether every job was returned."""
        return not self.sources and not self.pool


class IdReading(Struct, frozen=True):
    """How far the jobs of a list of ids were read. None of them counts as named by a user."""

    ids: Sequence[int]
    at: int = 0
    #: A token that sees only the jobs it submitted; None sees all jobs.
    visible_to: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether every job was returned."""
        return self.at >= len(self.ids)


def read_ids(batch: Batch, reading: IdReading, limit: int) -> tuple[list[Selected], IdReading]:
    """Return the next jobs of a list that still exist, of at most `limit` ids, and the reading after them."""
    some = reading.ids[reading.at : reading.at + limit]
    found = batch.fetch(some)
    jobs = [found[id_] for id_ in some if id_ in found]
    if reading.visible_to is not None:
        jobs = _visible(jobs, reading.visible_to, False)
    return [Selected(job, False) for job in jobs], replace(reading, at=reading.at + len(some))


def begin(
    batch: Batch,
    selectors: Iterable[Selector],
    visible_to: str | None = None,
    *,
    required: bool = True,
    live: bool = False,
) -> Reading:
    """Start to read the jobs of some selectors; jobs submitted later are not among them."""
    once = dict.fromkeys(selectors)
    return Reading(tuple(SelectorState(each) for each in once), batch.next_id - 1, visible_to, required, live)


def read(batch: Batch, reading: Reading, limit: int) -> tuple[list[Selected], Reading]:
    """Return the next jobs by id, at most `limit`, and the reading after them.

    Reads about `limit` jobs from the store, or does other work that costs as much. Jobs are returned in order of id, so
    the jobs of one selector may have to wait until all other selectors were read as far: a page may be empty before the
    last one. A selector that matches nothing raises NotFound, before the first job is returned.
    """
    sources, pool = list(reading.sources), dict(reading.pool)
    left = limit - len(_complete(reading, sources, pool))
    share = min(max(SHARE_MIN, limit // max(1, len(sources))), ROWS_AT_ONCE)
    while sources and left > 0:
        source, jobs, cost = _read_source(batch, reading, sources.pop(0), share)
        named = source.meant is not None and is_named(source.meant)
        pool |= {job.id: Selected(job, named or (job.id in pool and pool[job.id].named)) for job in jobs}
        left -= cost
        if source.after < reading.upto:
            insort(sources, source, key=lambda each: (each.found, each.after))
        elif reading.required and not source.found and not _may_be_empty(batch, source):
            raise NotFound(f"no job matches {describe(source.typed)}; {_hint(batch, source.typed)}")
    given = sorted(_complete(reading, sources, pool))[:limit]
    return [pool.pop(id_) for id_ in given], replace(reading, sources=tuple(sources), pool=pool)


def _complete(reading: Reading, sources: list[SelectorState], pool: dict[int, Selected]) -> list[int]:
    """Return the ids of the pool before which no selector can name another job."""
    first = sources[0] if sources else None
    upto = reading.upto if first is None else first.after if first.found else 0
    return [id_ for id_ in pool if id_ <= upto]


def _read_source(
    batch: Batch, reading: Reading, source: SelectorState, limit: int
) -> tuple[SelectorState, list[Job], int]:
    """Return a source after its next jobs, these jobs, and what it cost to find them, counted in jobs."""
    if source.meant is None:
        source = _meant_live(batch, source) if reading.live else replace(source, meant=resolve(batch, source.typed))
    assert source.meant is not None
    meant = source.meant
    stored, after = batch.store.page(meant, source.after, reading.upto, limit)
    jobs = [batch.current(job) for job in stored if job.id not in batch.changes.removed]
    if reading.live and not is_named(meant) and not _names_ended(source.typed):
        jobs = [job for job in jobs if _counts(source, job.state, job.created, job.spec.queue)]
    if reading.visible_to is not None:
        jobs = _visible(jobs, reading.visible_to, is_named(meant))
    cost = 1 + _looked_at(meant, stored, limit) + _cost(meant, stored, after - source.after)
    return replace(source, after=after, found=source.found or bool(jobs)), jobs, cost


def _looked_at(selector: Selector, jobs: list[Job], limit: int) -> int:
    """Return how many jobs were read at most for a page with these jobs."""
    if isinstance(selector, AnyOf):
        return limit * len(selector.parts)
    return limit if isinstance(selector, AllOf) else len(jobs)


def _cost(selector: Selector, jobs: list[Job], looked_at: int) -> int:
    """Return what reading some jobs of a selector costs beyond their number."""
    cost = sum(len(word) for job in jobs for word in job.spec.command) // BYTES_PER_JOB
    if isinstance(selector, LastJob):
        cost += selector.back // COUNTED_PER_JOB
    elif isinstance(selector, Since) or (isinstance(selector, InState) and State.SUCCEEDED.value in selector.names):
        cost += looked_at // LOOKED_AT_PER_JOB
    return cost


def _meant_live(batch: Batch, source: SelectorState) -> SelectorState:
    """Find what a selector means to a command that waits: `all` and a queue mean jobs that have not ended.

    A name means them too, and all jobs of the submission that used the name last: a sweep whose first job fails at once
    has failed, however late the command comes. So do a tag, and parts that are joined if the last submission is among
    the newest NEAR_JOBS jobs.
    """
    meant = resolve(batch, source.typed)
    match meant:
        case AllJobs():
            return replace(source, meant=InState(UNFINISHED))
        case ByQueue(name):
            return replace(source, meant=InState(UNFINISHED), queue=name)
        case ByName(name):
            last = batch.store.scan(JobScan(name=name, descending=True), 1)
            return replace(source, meant=meant, ended_of=last[0].created if last else None)
        case BySweep():
            # All jobs of a sweep count, however long ago the first of them was submitted.
            return replace(source, meant=meant, ended_of=ANY_TIME)
        case ByProject(name):
            last = batch.store.scan(JobScan(project=name, descending=True), 1)
            return replace(source, meant=meant, ended_of=last[0].created if last else None)
        case ByTag(key, value):
            newest = batch.store.last_tagged(key, value)
            return replace(source, meant=meant, ended_of=newest.created if newest is not None else None)
        case AllOf() | AnyOf() | Since():
            last = batch.store.scan(JobScan(descending=True), NEAR_JOBS)
            created = next((job.created for job in last if selects(meant, traits_of(job))), None)
            return replace(source, meant=meant, ended_of=created)
        case _:
            return replace(source, meant=meant)


def _names_ended(selector: Selector) -> bool:
    """Tell whether a selector means jobs that have ended too, also to a command that waits."""
    if isinstance(selector, AllOf | AnyOf):
        return any(map(_names_ended, selector.parts))
    return isinstance(selector, InState | BySweep)


def _counts(source: SelectorState, state: str, created: float, queue: str) -> bool:
    is_meant = state not in FINAL or source.ended_of in (ANY_TIME, created)
    return is_meant and source.queue in (None, queue)


def _visible(jobs: list[Job], to: str, named: bool) -> list[Job]:
    """Return the jobs that a token submitted; raise Refused if another token's job was named by its id."""
    own = [job for job in jobs if job.spec.by == to]
    if named and len(own) < len(jobs):
        other = next(job.id for job in jobs if job.spec.by != to)
        raise Refused(f"job {other} was submitted with another token; your token changes its own jobs only")
    return own


def select(batch: Batch, selectors: Iterable[Selector], limit: int = SELECTED_MAX, *, live: bool = False) -> list[Job]:
    """Return the jobs that selectors name, by id, at most `limit`, in one batch: for selectors that name few jobs."""
    reading = begin(batch, selectors, live=live)
    found: list[Job] = []
    while not reading.is_over and len(found) < limit:
        some, reading = read(batch, reading, limit - len(found))
        found += [job for job, _ in some]
    return found


def live_ids(batch: Batch, typed: Selector, limit: int, budget: int) -> tuple[list[int], int]:
    """Return the ids that `select` would find for a selector that is `live`, at most about `limit`, and what they cost.

    It stops when that is above `budget`. The cost is counted in jobs of which only a few columns are read.
    """
    source = _meant_live(batch, SelectorState(typed))
    meant, upto, cost = source.meant, batch.next_id - 1, 0
    assert meant is not None
    parts = meant.parts if isinstance(meant, AnyOf) else (meant,)
    is_whole = any(isinstance(part, AllOf) for part in parts)
    rows = ROWS_AT_ONCE if is_whole else max(ROWS_AT_ONCE, BRIEF_AT_ONCE // len(parts))
    #: What a page costs whatever it finds: of joined selectors it may read far more jobs than it returns.
    joined = rows * len(parts) * (BRIEF_PER_WHOLE if is_whole else 1) if isinstance(meant, AllOf | AnyOf) else 0
    takes_all = is_named(meant) or _names_ended(typed)
    updated, removed = batch.changes.updated, {*batch.changes.removed}
    found: list[int] = []
    while source.after < upto and len(found) <= limit and cost <= budget:
        some, after = batch.store.brief_page(meant, source.after, upto, rows)
        cost += 1 + _cost(meant, [], after - source.after) + max(len(some), joined)
        for id_, state, created, queue in some:
            if id_ in updated:
                state, queue = updated[id_][1].state, updated[id_][1].spec.queue
            if id_ not in removed and (takes_all or _counts(source, state, created, queue)):
                found.append(id_)
        source = replace(source, after=after, found=bool(found))
    if source.after >= upto and not found and not _may_be_empty(batch, source):
        raise NotFound(f"no job matches {describe(typed)}; {_hint(batch, typed)}")
    return found, cost


def is_named(selector: Selector) -> bool:
    """Tell whether a selector names single jobs, by id or as the last ones."""
    return isinstance(selector, ByIds | LastJob) or (isinstance(selector, ByProject) and selector.id is not None)


def present(batch: Batch, ids: Iterable[int]) -> list[Job]:
    """Return the jobs of these ids that still exist, as they are now."""
    return [batch.current(job) for selector in by_ids(ids) for job in batch.store.jobs(selector, SELECTED_MAX)]


def by_ids(ids: Iterable[int]) -> list[Selector]:
    """Return selectors for exactly these jobs."""
    ranges = id_ranges(sorted(ids))
    return [ByIds(tuple(ranges))] if ranges else []


def resolve(batch: Batch, selector: Selector) -> Selector:
    """Return what a selector means: a bare word is the queue of that name, unless only jobs of that name exist.

    A time counts from now. The parts that must all hold are put in order: the one with the fewest jobs is read.
    """
    match selector:
        case AllOf(parts):
            return AllOf(batch.store.fewest_first([_fixed(batch, part) for part in parts]))
        case AnyOf(parts):
            return AnyOf(tuple([_alternative(batch, part) for part in parts]))
        case Since(seconds, None):
            return Since(seconds, batch.now - seconds)
        case ByWord(text):
            return _queue_or_name(batch, text)
        case _:
            return selector


def _alternative(batch: Batch, part: Part | AllOf) -> Part | AllOf:
    if isinstance(part, AllOf):
        return AllOf(batch.store.fewest_first([_fixed(batch, each) for each in part.parts]))
    meant = _fixed(batch, part)
    if isinstance(part, ByWord) and isinstance(meant, ByName) and not batch.store.jobs(meant, 1):
        # Among others it would select nothing, and a misspelt state would go unseen.
        raise NotFound(f"no job matches {describe(part)}; {_hint(batch, part)}")
    return meant


def _fixed(batch: Batch, part: Part) -> Part:
    """Return what one of several parts means; the last job by its id."""
    if isinstance(part, LastJob):
        return ByIds(tuple([(job.id, job.id) for job in batch.store.jobs(part, 1)]))
    meant = resolve(batch, part)
    assert not isinstance(meant, AllOf | AnyOf)
    return meant


def _queue_or_name(batch: Batch, text: str) -> ByQueue | ByName:
    queue, name = ByQueue(text), ByName(text)
    if batch.store.jobs(queue, 1):
        return queue
    return queue if text in batch.board.queue_names() and not batch.store.jobs(name, 1) else name


def _hint(batch: Batch, selector: Selector) -> str:
    """Return what was probably meant by a selector that matches nothing; else how to list every job."""
    if isinstance(selector, ByWord | ByName | ByQueue):
        text = selector.text if isinstance(selector, ByWord) else selector.name
        newest, _ = batch.store.page(AllJobs(), max(0, batch.next_id - 1 - NEAR_JOBS), batch.next_id, NEAR_JOBS)
        names = {job.name for job in newest if job.name}
        if meant := closest(text, {*STATES, ALL, *batch.board.queue_names(), *names}):
            return f"did you mean {shown(meant)}?"
    return "`grass show all` lists every job"


def _may_be_empty(batch: Batch, source: SelectorState) -> bool:
    if isinstance(source.typed, AllJobs) or source.queue is not None:
        return True
    return isinstance(source.meant, ByQueue) and source.meant.name in batch.board.queue_names()


def describe(selector: Selector) -> str:
    """Return a selector as a user would type it."""
    match selector:
        case ByIds(ranges):
            return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges[:4])
        case ByWord(text) | ByName(text) | ByQueue(text):
            return shown(text)
        case InState(names):
            return ",".join(names)
        case ByToken(id_):
            return f"token:{id_}"
        case ByProject(project, name, id_):
            return f"project:{project}" if name is None else f"{project}/{name}" + (f"/{id_}" if id_ else "")
        case BySweep(id_):
            return f"sweep:{id_}"
        case LastJob(back):
            return f"@~{back}" if back else "@"
        case ByTag(key, value):
            return f"tag:{key}" if value is None else f"tag:{key}={value}"
        case Since(seconds):
            return f"since:{seconds:g}s"
        case AllOf(parts):
            return "+".join(map(describe, parts))
        case AnyOf(parts):
            return ",".join(map(describe, parts))
        case _:
            return "all"
