"""What a store promises, method by method, and how it keeps this in tables."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from itertools import groupby, starmap
from operator import itemgetter
from sys import intern

from msgspec.structs import astuple

from grassq.core.model import ID_MAX, Job, State
from grassq.errors import Deposed, GuardFailed, Refused
from grassq.gc_pause import gc_paused
from grassq.store import broker_rows, rows, sql, tallies
from grassq.store.base import (
    CODE_KEPT_S,
    INCARNATIONS_KEPT,
    PREDICTIONS_KEPT,
    SUBMISSION_KEPT_S,
    SUBMITTED,
    Attempt,
    Changes,
    Loaded,
    Prediction,
    Story,
    Submission,
    Token,
    WaitingGroup,
)
from grassq.store.reading.sweeps import SweepReader, sweep_row
from grassq.store.rows import Part
from grassq.store.tallies import Tallies

#: How many rows of a store are in memory at once while it is copied, and while waiting jobs are grouped.
ROWS_AT_ONCE, WAITING_AT_ONCE = 500, 2000
#: Lines of a story are numbered by their commit and, within it, below this; a batch has far fewer.
LINES_MAX = 1 << 24


class Store(SweepReader):
    """One broker's memory, in the tables of one database. Used by one thread at a time."""

    #: How often `beat` must be called; None if no other broker can take this store over.
    beat_s: float | None = None
    #: The number of the last commit; it grows by one with each commit and is stored with it.
    number = 0

    def __init__(self, where: str) -> None:
        super().__init__(where)
        #: Counts of jobs; None until the jobs are counted.
        self._tallies: Tallies | None = None

    def try_lead(self) -> bool:
        """Tell whether this broker may use the store now; the daemon asks every second until it may."""
        return True

    def beat(self) -> None:
        """Confirm that this broker lives; raise Deposed if another has taken over."""
        return

    def begin(self, incarnation: str) -> None:
        """Store that a broker begins; earlier incarnations are kept. Doing it twice changes nothing more."""
        with self._foreign_errors(), self._writing():
            self._execute(sql.INSERT_LIFE, (incarnation, self.number))
            self._execute(sql.FORGET_LIVES, (INCARNATIONS_KEPT,))

    def put_word(self, key: str, word: str) -> str | None:
        """Store one word about the store itself; return the word that was there before."""
        with self._foreign_errors(), self._writing():
            before = [str(row[0]) for row in self._all(sql.GET_META, key)]
            self._execute(sql.PUT["meta"], (key, word))
            return before[0] if before else None

    def load(self, whole: int) -> Loaded:
        """Return what is unfinished, as of the last commit; the first `whole` waiting jobs are returned whole.

        A million waiting jobs take seconds, and only the memory of their queue positions.
        """
        self._tallies = None
        self._reopen()
        with self._foreign_errors(), self._reading():
            number = self._number()
            if number < self.number:
                # A restored copy, or a standby that never had our last commits: only a new incarnation may go on.
                raise Deposed(f"{self.where} went back from commit {self.number} to {number}; start the broker again")
            unmet = self._all(sql.SELECT_UNMET)
            loaded = Loaded(
                store_id=str(self._all(sql.GET_META, "store_id")[0][0]),
                position_key=str(self._all(sql.GET_META, "position_key")[0][0]),
                jobs=self._alive(whole),
                workers=[rows.worker_of(info) for _, info in self._all(sql.SELECT_ALL["worker"])],
                templates={queue: rows.template_of(packed) for queue, packed in self._all(sql.SELECT_ALL["template"])},
                group_limits={name: rows.limit_of(body) for name, body in self._all(sql.SELECT_ALL["group_limit"])},
                paused=dict(self._all(sql.SELECT_ALL["pause"])),
                highest_id=self._highest_id(),
                worker_records=dict(
                    broker_rows.worker_record_from(row) for row in self._all(sql.SELECT_ALL["standing"])
                ),
                unreconciled={row[0] for row in self._all(sql.SELECT_ALL["doubt"])},
                restored_to=self._meta("restored_to"),
                newer=next((broker_rows.newer_from(row) for row in self._all(sql.GET_META, "newer")), {}),
                lost_jobs=self._meta("lost_jobs"),
                incarnations=dict(self._all(sql.SELECT_ALL["life"])),
                groups=self._groups(),
                moved=dict(self._all(sql.SELECT_MOVED)),
                edges=[(parent, job, condition) for parent, job, condition, *_ in unmet],
                queues={job: intern(queue) for _, job, _, queue, _ in unmet},
                tokens={job: intern(token) for _, job, _, _, token in unmet if token is not None},
            )
            self.number, self._tallies = number, self._counted()
        return loaded

    def _highest_id(self) -> int:
        stored = [int(row[0]) for row in self._all(sql.SELECT_HIGHEST) if row[0] is not None]
        return max([*stored, self._meta("highest_id")])

    def _meta(self, key: str) -> int:
        """Return a number that is kept under a key, 0 if there is none."""
        return max((int(row[0]) for row in self._all(sql.GET_META, key)), default=0)

    def ids_taken(self) -> tuple[str, int, int]:
        """Return the store's id, the highest id it ever gave, and the one it may have given before a restore."""
        with self._foreign_errors():
            return str(self._all(sql.GET_META, "store_id")[0][0]), self._highest_id(), self._meta("restored_to")

    def known(self, ids: Sequence[int]) -> set[int]:
        """Return which of these ids a stored job has, or a removed job whose folder may still be there."""
        with self._foreign_errors():
            return {row[0] for each in (sql.SELECT_IDS, sql.SELECT_REMOVED_IDS) for row in self._of_ids(each, ids)}

    def _alive(self, whole: int) -> list[Job]:
        """Return the jobs that a broker must know whole, and the first of the others."""
        busy = [row for name in ("placed", "running") for row in self._all(sql.SELECT_STATE, name, 0, ID_MAX, ID_MAX)]
        busy += self._all(sql.SELECT_TIMED, "waiting", ID_MAX)
        calm = [row for name in ("queued", "held") for row in self._all(sql.SELECT_STATE, name, 0, ID_MAX, whole)]
        calm += self._all(sql.SELECT_UNTIMED, "waiting", whole)
        calm.sort(key=itemgetter(0))
        return [rows.job_from(row) for row in sorted(busy + calm[:whole], key=itemgetter(0))]

    def _groups(self) -> list[WaitingGroup]:
        found = []
        with gc_paused():
            for state, statement in sql.SELECT_WAITING_GROUPS.items():
                found += rows.waiting_groups(State(state), self._stream(statement, WAITING_AT_ONCE))
        return found

    def _counted(self) -> Tallies:
        finished = self._all(sql.COUNT_FINISHED)[0][0]
        return tallies.counted(self._all(sql.COUNT_OTHERS), finished, self._all(sql.COUNT_OF_TOKENS))

    def _identify(self) -> None:
        for key, bytes_ in (("store_id", 8), ("position_key", 32)):
            if not self._all(sql.GET_META, key):
                self._execute(sql.PUT["meta"], (key, secrets.token_hex(bytes_)))

    def _number(self) -> int:
        return int(self._all(sql.GET_META, "number")[0][0])

    def commit(self, changes: Changes) -> None:
        """Store everything durably, or nothing and raise.

        A job row that is not as `updated` expects raises GuardFailed; what the disk refuses raises StoreUnavailable;
        when another broker has taken the store over, Deposed.
        """
        # Set again only after a successful commit: until then the jobs are counted anew.
        counted, self._tallies = self._tallies, None
        with self._foreign_errors(), self._writing():
            if self._execute(sql.NEXT_NUMBER, (str(self.number + 1), str(self.number))).rowcount != 1:
                raise GuardFailed(f"commit {self.number} is not the last in the store")
            self._write_jobs(changes)
            left = self._remove(changes.removed, changes.kept) if changes.removed else Counter()
            self._write_broker(changes)
        self.number += 1
        if counted is not None:
            counted.count(changes, left)
            self._tallies = counted

    def _write_jobs(self, changes: Changes) -> None:
        if changes.environments:
            self._many(sql.INSERT_ENVIRONMENT, changes.environments.items())
        if changes.inserted:
            for statement, alike in groupby(rows.job_inserts(changes.inserted.values()), itemgetter(0)):
                self._many(statement, map(itemgetter(1), alike))
            if tags := rows.tag_rows(changes.inserted.values()):
                self._many(sql.INSERT["tag"], tags)
        if changes.unlinked:
            self._many(sql.UNLINK_JOB, [(job,) for job in changes.unlinked])
        if changes.edges:
            self._many(sql.INSERT["dependency"], changes.edges)
        if changes.met or changes.freed or changes.failure_met:
            self._run_on(sql.MEET_PARENTS, sorted({*changes.met}))
            self._run_on(sql.MEET_JOBS, sorted({*changes.freed}))
            self._run_on(sql.MEET_FAIL, sorted({*changes.failure_met}))
        if changes.updated:
            counts = self._counts(starmap(rows.job_update, changes.updated.values()))
            for count, (before, after) in zip(counts, changes.updated.values(), strict=True):
                if count != 1:
                    raise GuardFailed(f"job {after.id} is not {before.state} in the store")
            if retagged := [new for old, new in changes.updated.values() if old.spec.tags != new.spec.tags]:
                self._run_on(sql.REMOVE_TAGS, [job.id for job in retagged])
                self._many(sql.INSERT["tag"], rows.tag_rows(retagged))
        if attempts := changes.attempts.values():
            self._many(sql.INSERT_PLACED, [rows.placed_row(each) for each in attempts if rows.is_untold(each)])
            self._many(sql.PUT["attempt"], [rows.attempt_row(each) for each in attempts if not rows.is_untold(each)])
        if changes.story:
            first = (self.number + 1) * LINES_MAX
            lines = enumerate(changes.story, start=first)
            self._many(sql.INSERT["event"], [(line.job, n, line.at, line.kind, line.detail) for n, line in lines])
            self._many(sql.TRIM_STORY, rows.story_trims(self.number, changes.story))

    def _remove(self, jobs: list[int], kept: set[int]) -> Counter[str]:
        """Remove finished jobs and all that only they needed, of `kept` not the logs; return how many of each state."""
        self._execute(sql.PUT["meta"], ("highest_id", str(max([*jobs, self._meta("highest_id")]))))
        leaving = {row[0]: row for row in self._of_ids(sql.SELECT_LEAVING, jobs)}
        for job in jobs:
            if job not in leaving:
                raise GuardFailed(f"job {job} is not finished in the store")
        for statement in sql.REMOVALS:
            self._run_on(statement, jobs)
        self._many(sql.INSERT["removal"], [(job, int(job in kept)) for job in jobs])
        # Only what these jobs used can have become useless.
        self._many(sql.REMOVE_ENVIRONMENT, [(digest,) for digest in {row[2] for row in leaving.values()}])
        self._many(sql.REMOVE_SWEEP, [(sweep,) for sweep in {row[3] for row in leaving.values()} - {None}])
        return Counter(row[1] for row in leaving.values())

    def _run_on(self, statement: str, jobs: Sequence[int]) -> None:
        """Run a statement about jobs, as many at once as one statement names."""
        for ids in sql.portions(jobs):
            self._execute(sql.of_ids(statement, len(ids)), ids)

    def _write_broker(self, changes: Changes) -> None:
        if changes.submissions:
            submissions = list(changes.submissions.values())
            self._execute(sql.FORGET_SUBMISSIONS, (max(one.at for one in submissions) - SUBMISSION_KEPT_S,))
            self._many(sql.INSERT["submission"], [broker_rows.submission_row(one) for one in submissions])
        if changes.tokens:
            tokens = list(changes.tokens.values())
            now = max(max(token.created, token.ended or 0.0) for token in tokens)
            self._execute(sql.FORGET_CODES, (now - CODE_KEPT_S,))
            self._many(sql.PUT["token"], [broker_rows.token_row(token) for token in tokens])
        if changes.workers:
            self._many(sql.PUT["worker"], [(name, rows.encode(info)) for name, info in changes.workers.items()])
        if changes.worker_records:
            records = changes.worker_records.items()
            self._many(sql.PUT["standing"], [broker_rows.worker_record_row(*item) for item in records])
        # Removed last: anything else the same batch says about a worker is removed with it.
        if gone := [(name,) for name in changes.removed_workers]:
            self._many(sql.REMOVE["worker"], gone)
            self._many(sql.REMOVE["standing"], gone)
        for queue, template in changes.templates.items():
            if template is None:
                self._execute(sql.REMOVE["template"], (queue,))
            else:
                self._execute(sql.PUT["template"], (queue, rows.encode(template)))
        for group, limit in changes.group_limits.items():
            if limit is None:
                self._execute(sql.REMOVE["group_limit"], (group,))
            else:
                self._execute(sql.PUT["group_limit"], (group, rows.encode(limit)))
        if changes.sweeps:
            self._many(sql.PUT["sweep"], [*map(sweep_row, changes.sweeps.values())])
        if changes.paused is not None:
            self._replace("pause", sorted(changes.paused.items()))
        if changes.unreconciled is not None:
            self._replace("doubt", [(name,) for name in sorted(changes.unreconciled)])
        if changes.untold:
            first = (self.number + 1) * LINES_MAX
            self._many(sql.INSERT["untold"], [(n, end) for n, end in enumerate(changes.untold, start=first)])
        if changes.told:
            self._many(sql.REMOVE["untold"], [(number,) for number in changes.told])
        if changes.cleared:
            for statement in (sql.CLEAR_REMOVAL, sql.CLEAR_KEPT):
                self._many(statement, [(job,) for job in changes.cleared])
        for key, number in (("restored_to", changes.restored_to), ("lost_jobs", changes.lost_jobs)):
            if number is not None:
                self._execute(sql.PUT["meta"], (key, str(number)))
        if changes.newer is not None:
            self._execute(sql.PUT["meta"], ("newer", broker_rows.newer_text(changes.newer)))
        if changes.predicted or changes.judged:
            self._write_predictions(changes)

    def _write_predictions(self, changes: Changes) -> None:
        """Store predictions, at most one of a kind per job, and forget the oldest above PREDICTIONS_KEPT."""
        self._many(sql.INSERT_PREDICTION, [astuple(each) for each in changes.predicted])
        for (job, kind), actual in changes.judged.items():
            if actual is None:
                self._execute(sql.REMOVE_PREDICTION, (job, kind))
            else:
                self._execute(sql.JUDGE_PREDICTION, (actual, job, kind))
        self._execute(sql.FORGET_PREDICTIONS, (PREDICTIONS_KEPT,))

    def submission(self, key: str) -> Submission | None:
        """Return what a key was used for; keys are kept for SUBMISSION_KEPT_S."""
        return next(iter(self._read(broker_rows.submission_from, sql.SELECT_SUBMISSION, key)), None)

    def environment(self, digest: bytes) -> bytes | None:
        """Return the content stored under a digest."""
        return next(iter(self._read(itemgetter(0), sql.SELECT_ENVIRONMENT, digest)), None)

    @property
    def tallies(self) -> Tallies:
        """Counts of jobs, kept up to date, so that asking costs nothing."""
        if self._tallies is None:
            with self._foreign_errors():
                self._tallies = self._counted()
        return self._tallies

    def totals(self) -> dict[str, int]:
        """Return how many jobs are in each state that has jobs, in the order of a job's life."""
        totals = self.tallies.totals
        return {state.value: count for state in State if (count := totals[state.value])}

    def named(self, name: str) -> dict[str, int]:
        """Return how many jobs of a name are in each state; the first question counts them, later ones cost nothing."""
        counts = self.tallies.names.get(name)
        if counts is None:
            counts = Counter(dict(self._read(itemgetter(0, 1), sql.COUNT_NAMED, name)))
            self.tallies.keep_name(name, counts)
        return {state: count for state, count in counts.items() if count}

    def of_sweep(self, sweep: int) -> dict[str, int]:
        """Return how many jobs of a sweep are in each state; the first question counts them, as with `named`."""
        counts = self.tallies.sweeps.get(sweep)
        if counts is None:
            counts = self.in_sweep(sweep)
            self.tallies.keep_sweep(sweep, counts)
        return {state: count for state, count in counts.items() if count}

    def attempts(self, job: int) -> list[Attempt]:
        """Return every try of a job, oldest first."""
        return self._read(rows.attempt_from, sql.SELECT_ATTEMPTS, job)

    def story(self, job: int) -> list[Story]:
        """Return what happened to a job, oldest first, beginning with its submission."""
        with self._foreign_errors():
            born = self._all(sql.SELECT_SUBMITTED, job)
            lines = [Story(*row) for row in self._all(sql.SELECT_STORY, job)]
            # A job that was given another queue has a line with the queue it was submitted to.
            stated = [line for line in lines if line.kind == SUBMITTED][:1]
            first = [Story(job, created, SUBMITTED, f"queue {queue}") for created, queue in born]
            return (stated or first) + [line for line in lines if line.kind != SUBMITTED]

    def predictions(self) -> list[Prediction]:
        """Return all predictions that are kept, oldest first: at most PREDICTIONS_KEPT."""
        fields = Prediction.__struct_fields__
        return self._read(lambda row: Prediction(**dict(zip(fields, row, strict=True))), sql.SELECT_ALL["prediction"])

    def tokens(self) -> list[Token]:
        """Return every token and code, oldest first, ended ones too; codes are kept CODE_KEPT_S after they ended."""
        return self._read(broker_rows.token_from, sql.SELECT_TOKENS)

    def rerun_jobs(self) -> set[int]:
        """Return the jobs that some stored job runs again."""
        return set(self._read(itemgetter(0), sql.SELECT_RERUNS))

    def reruns(self, ids: Sequence[int]) -> list[Job]:
        """Return the stored jobs that run any of these again."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._of_ids(sql.SELECT_RUNS, ids)]

    def dependents(self, ids: Sequence[int]) -> list[int]:
        """Return the stored jobs that start after any of these, ended ones too, each once."""
        with self._foreign_errors():
            return sorted({row[0] for row in self._of_ids(sql.SELECT_DEPENDENTS, ids)})

    def size(self) -> int:
        """Return how many rows all tables have."""
        with self._foreign_errors():
            return sum(self._all(statement)[0][0] for statement in sql.COUNT_ROWS.values())

    def dump(self) -> Generator[Part, None, None]:
        """Yield everything as (table, rows), in an order in which it can be written; no broker may write meanwhile."""
        with self._foreign_errors(), self._writing():
            self._patient()
            for table, statement in sql.SELECT_ALL.items():
                for some in self._stream(statement, ROWS_AT_ONCE):
                    yield table, some

    def fill(self, parts: Iterable[Part]) -> None:
        """Become a copy of another store: all of it or nothing, and only where no job ever was."""
        with self._foreign_errors(), self._writing():
            self._patient()
            if self._all(sql.COUNT_ROWS["job"])[0][0] or self._all(sql.GET_META, "highest_id"):
                raise Refused(f"{self.where} has jobs already; name a store that was never used")
            for statement in sql.EMPTY.values():
                self._execute(statement)
            for table, some in parts:
                self._many(sql.INSERT[table], some)
            number = self._number()
        self.number, self._tallies = number, None
