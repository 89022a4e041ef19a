"""Apply an action to many jobs: read them, fix the set, change it step by step, and record every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.selection import IdReading, Reading
from grassq.broker.service import ids_of, recall
from grassq.broker.waiting import dependents
from grassq.core.model import Job, State
from grassq.core.syntax.selectors import Selector
from grassq.errors import Refused
from grassq.store.base import Submission

#: How many jobs one step reads or changes. The engine is held for one step, commit included: below 50 ms.
STEP_JOBS = 100
#: A result has the jobs themselves up to this many; of more jobs it has the ids.
LISTED_MAX = 10
NOTES_MAX = 20


class Applied(Struct):
    """What one step did."""

    #: The changed jobs as they are now; for a rerun, the new jobs.
    jobs: list[Job] = field(default_factory=list)
    #: How many of the jobs run and were told to stop, and the shortest and the longest grace among them, in seconds.
    stopping: int = 0
    graces: list[float] = field(default_factory=list)
    #: Notes for the user, by job.
    notes: dict[int, str] = field(default_factory=dict)


class BulkResult(Struct, frozen=True):
    """What an action did to its jobs."""

    ids: list[int]
    stopping: int = 0
    #: The shortest and the longest time between SIGTERM and SIGKILL; empty if nothing was told to stop, or if the
    #: request was repeated.
    graces: list[float] = []
    notes: list[str] = []
    #: The jobs themselves, if there are at most LISTED_MAX.
    jobs: list[Job] = []


class Next(Struct, frozen=True):
    """The action has not finished: this handler is its next step."""

    handler: Callable[[Batch], BulkResult | Next]
    #: How many jobs were changed, of how many; 0 while the jobs are still being read.
    done: int = 0
    total: int = 0


class Action(ABC):
    """An action on jobs, one by one."""

    #: Whether the action is refused when a job named by its id, or every job, cannot be changed.
    is_strict = True
    #: Whether the jobs that start after the selected ones are changed too, and those that start after them.
    with_dependents = False
    #: Whether the newest jobs are changed first: a job that ends must not decide about one that is about to change.
    newest_first = False

    @abstractmethod
    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        """Return None if a job can be changed, else why not; an empty text leaves the job out without a note."""

    def check(self, batch: Batch, jobs: Sequence[Job]) -> dict[int, str]:
        """Return why some of the jobs are left out; raise Refused if they make the whole action impossible."""
        return {}

    def group(self, job: Job) -> int:
        """Return the group of a job: of the selected jobs in a group only the one with the highest id is changed."""
        return job.id

    def order(self, job: Job) -> int:
        """Return the place of a job among those that are changed, which differ in it or in their ids."""
        return job.id

    def goes_last(self, job: Job) -> bool:
        """Tell whether a job is changed only after all others."""
        return False

    def note_of(self, left_out: Mapping[State, int]) -> str | None:
        """Return a note about the selected jobs that were left out without a note of their own, counted by state."""
        return None

    def effective(self, batch: Batch, jobs: Sequence[Job]) -> list[Job]:
        """Return those of the chosen jobs that `apply` will change."""
        return [*jobs]

    @abstractmethod
    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        """Change jobs, at most STEP_JOBS."""


def read_step(batch: Batch, reading: Reading | IdReading) -> tuple[list[selection.Selected], Reading | IdReading]:
    """Return the next jobs of a reading, as many as one step takes, and the reading after them."""
    if isinstance(reading, IdReading):
        return selection.read_ids(batch, reading, STEP_JOBS)
    return selection.read(batch, reading, STEP_JOBS)


class BulkChange:
    """One request to change selected jobs. Its steps are stored under its key, so a repeated request goes on.

    The store has a row under the key when all is done, one under `KEY.set` with the fixed set if that takes more than
    one step, and one under `KEY.N` for each step. A step may be run again when its batch is dropped, and two clients
    may send the same request at once: every step checks first whether it was done.
    """

    def __init__(
        self,
        action: Action,
        selectors: Iterable[Selector],
        *,
        key: str,
        digest: bytes,
        visible_to: str | None = None,
        required: bool = True,
        ids: Sequence[int] | None = None,
    ) -> None:
        """Prepare a change of selected jobs, or of the jobs of a list: of a list, what cannot be changed is skipped."""
        self._ids = ids
        self._action = action
        self._selectors = list(selectors)
        self._key = key
        self._digest = digest
        self._visible_to = visible_to
        self._required = required
        #: The chosen jobs by group, and those of them that go last.
        self._chosen: dict[int, int] = {}
        self._last: set[int] = set()
        #: The places of those that are not in the order of their ids.
        self._places: dict[int, int] = {}
        #: Notes by job: why it was left out, or what else to say.
        self._notes: dict[int, str] = {}
        #: The selected jobs that were left out without a note.
        self._left_out: Counter[State] = Counter()
        #: The graces of each step. Of the jobs themselves nothing is kept: there may be very many.
        self._graces: dict[int, list[float]] = {}
        self._steps: dict[int, Submission] = {}

    def start(self, batch: Batch) -> BulkResult | Next:
        """Do the first step; a repeated request begins where the earlier one stopped."""
        if (known := self._recall(batch)) is not None:
            return self._told(batch, known)
        if (fixed := self._recall(batch, "set")) is not None:
            return self._go_on(batch, fixed.ids, 0, 0)
        if self._ids is not None:
            return self._read(batch, IdReading(self._ids, visible_to=self._visible_to))
        return self._read(batch, selection.begin(batch, self._selectors, self._visible_to, required=self._required))

    def _recall(self, batch: Batch, part: object = None) -> Submission | None:
        return recall(batch, self._key if part is None else f"{self._key}.{part}", self._digest)

    def _record(self, batch: Batch, part: object, position: int, stopping: int, ids: Iterable[int]) -> Submission:
        key = self._key if part is None else f"{self._key}.{part}"
        made = Submission(key, self._digest, position, stopping, batch.now, tuple(ids))
        batch.changes.submissions[key] = made
        return made

    def _read(self, batch: Batch, reading: Reading | IdReading) -> BulkResult | Next:
        """Choose among the next jobs that the selectors name."""
        if (known := self._recall(batch)) is not None:
            return self._told(batch, known)
        some, reading = read_step(batch, reading)
        jobs = self._choose(batch, some)
        if not reading.is_over:
            return Next(partial(self._read, reading=reading))
        if self._action.with_dependents:
            self._choose(batch, self._dependents(batch))
        if self._notes and not self._chosen and self._action.is_strict:
            raise Refused(next(iter(self._notes.values())))
        last = self._last.intersection(self._chosen.values())
        first = [id_ for id_ in self._chosen.values() if id_ not in last]
        first.sort(key=self._place, reverse=self._action.newest_first)
        ids = [*first, *sorted(last)]
        if len(ids) > STEP_JOBS:
            fixed = self._recall(batch, "set") or self._record(batch, "set", 0, 0, ids)
            return Next(partial(self._go_on, ids=fixed.ids, number=0, position=0), 0, len(fixed.ids))
        wanted = set(ids)
        jobs = [job for job in jobs if job.id in wanted]
        if len(jobs) < len(ids):
            jobs = self._still(batch, ids)
        applied = self._apply(batch, 0, jobs)
        made = self._record(batch, None, 0, applied.stopping, (job.id for job in applied.jobs))
        return self._told(batch, made, applied.jobs)

    def _place(self, id_: int) -> tuple[int, int]:
        return self._places.get(id_, id_), id_

    def _dependents(self, batch: Batch) -> list[selection.Selected]:
        """Return the jobs that start after the chosen ones, of a token its own alone."""
        found = batch.fetch(dependents.behind(batch, self._chosen.values())).values()
        own = [job for job in found if self._visible_to in (None, job.spec.by)]
        return [selection.Selected(job, False) for job in own]

    def _choose(self, batch: Batch, some: Iterable[selection.Selected]) -> list[Job]:
        jobs = list(some)
        chosen = self._changeable(batch, jobs)
        self._left_out.update(job.state for job, _ in jobs)
        self._left_out.subtract(job.state for job in chosen)
        impossible = self._action.check(batch, chosen)
        for id_, why in impossible.items():
            self._note(id_, why)
        chosen = [job for job in chosen if job.id not in impossible]
        for job in chosen:
            self._chosen[self._action.group(job)] = job.id
            if self._action.goes_last(job):
                self._last.add(job.id)
            if (place := self._action.order(job)) != job.id:
                self._places[job.id] = place
        return chosen

    def _note(self, job: int, why: str) -> None:
        if why and len(self._notes) < NOTES_MAX:
            self._notes[job] = why

    def _still(self, batch: Batch, ids: Sequence[int]) -> list[Job]:
        """Return the chosen jobs that can still be changed: other batches may have changed them."""
        found = batch.fetch(ids)
        return self._changeable(batch, [(found[id_], False) for id_ in ids if id_ in found])

    def _changeable(self, batch: Batch, some: Iterable[tuple[Job, bool]]) -> list[Job]:
        """Return the jobs that can be changed; note why not, or refuse the action for a job named by its id."""
        jobs = []
        for job, named in some:
            why = self._action.why_not(batch, job, named)
            if why is None:
                jobs.append(job)
            elif named and why and self._action.is_strict:
                raise Refused(why)
            else:
                self._note(job.id, why)
        return jobs

    def _apply(self, batch: Batch, number: int, jobs: Sequence[Job]) -> Applied:
        if self._visible_to in batch.board.ended_tokens:
            raise Refused("your token was revoked")
        applied = self._action.apply(batch, jobs)
        self._graces[number] = applied.graces
        for job, note in applied.notes.items():
            self._note(job, note)
        return applied

    def _go_on(self, batch: Batch, ids: Sequence[int], number: int, position: int) -> BulkResult | Next:
        """Do step `number` of the fixed set, or skip all steps that were done already."""
        while (known := self._recall(batch, number)) is not None:
            self._steps[number] = known
            number, position = number + 1, known.first_id
        some = ids[position : position + STEP_JOBS]
        if some:
            applied = self._apply(batch, number, self._still(batch, some))
            position += len(some)
            done = (job.id for job in applied.jobs)
            self._steps[number] = self._record(batch, number, position, applied.stopping, done)
            # Also after the last step: the record of the whole change gets a batch of its own.
            handler = partial(self._go_on, ids=ids, number=number + 1, position=position)
            return Next(handler, position, len(ids))
        if (whole := self._recall(batch)) is None:
            steps = self._steps.values()
            all_ids = sorted(id_ for step in steps for id_ in step.ids)
            whole = self._record(batch, None, 0, sum(step.count for step in steps), all_ids)
        return self._told(batch, whole)

    def _told(self, batch: Batch, done: Submission, jobs: Sequence[Job] | None = None) -> BulkResult:
        graces = [grace_s for graces in self._graces.values() for grace_s in graces]
        # A submission in one batch has a first id and a count instead of a list.
        ids = ids_of(done) if done.first_id else list(done.ids)
        if jobs is None:
            jobs = selection.present(batch, ids) if len(ids) <= LISTED_MAX else ()
        return BulkResult(
            ids,
            done.count,
            [min(graces), max(graces)] if graces else [],
            [*self._notes.values(), *([note] if (note := self._action.note_of(self._left_out)) else [])],
            list(jobs[:LISTED_MAX]) if len(ids) <= LISTED_MAX else [],
        )
