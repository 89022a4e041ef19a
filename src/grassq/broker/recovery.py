"""What a worker that comes back is asked and told: what it must still do, may delete, or knows better than the store.

A broker restored from an old backup is found out here, by a worker that has seen more of the store's history than the
store itself. Then nothing is started until every known worker has said what it holds, and what the backup does not
know comes back from the run dirs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.broker.inbox import Orders
from grassq.broker.signing import is_ours
from grassq.core import reconcile
from grassq.core.job_options import STOP_GRACE_S
from grassq.core.messages import Forget, Hello, Order, Recall, Start, Stop, StorePosition
from grassq.core.model import ATTEMPT_MAX, FINAL, HOLDING, ID_MAX, AttemptId, Job, State
from grassq.core.planner.board import Board
from grassq.core.states import Adopt, Hold

log = logging.getLogger(__name__)

#: How many of the attempts a worker says it holds are compared with the store; it says the newest first.
HELD_MAX = 50_000
#: How many jobs a backup can lack at most: ids further on than that are no ids of this store, whoever names them.
LEAP_MAX = 10**9
#: How often a worker is asked for an attempt it does not tell; then it is given up, loudly.
RECALL_TRIES = 5
#: How many ends of lost attempts are remembered, for workers that come back after all.
FENCED_MAX = 10_000
FORGET_MAX = 10_000
#: How many attempts are remembered that workers could not tell.
UNTOLD_MAX = 10_000


class AskedRecall(Struct):
    """A question for an attempt that the store has forgotten."""

    worker: str
    at: float
    times: int = 1


class RecoveryState(Struct):
    """What is remembered of workers in one life of the broker; put back when a batch fails."""

    #: Who has said what it holds.
    spoken: set[str] = field(default_factory=set)
    #: The store was found to be restored from a backup.
    restored: bool = False
    asked: dict[AttemptId, AskedRecall] = field(default_factory=dict)
    #: What workers could not tell; the oldest are forgotten, and asked again if they are still named.
    untold: dict[AttemptId, None] = field(default_factory=dict)
    #: Attempts given up while their workers were out of touch, to be stopped if they still run.
    fenced: dict[AttemptId, tuple[str, Stop]] = field(default_factory=dict)

    def copy(self) -> RecoveryState:
        """A copy to go back to."""
        asked = {attempt: replace(each) for attempt, each in self.asked.items()}
        return RecoveryState(set(self.spoken), self.restored, asked, dict(self.untold), dict(self.fenced))


class Recovery:
    """What becomes of what workers say when they come back."""

    def __init__(self, life: str) -> None:
        self.life = life
        self.state = RecoveryState()
        self._lives: dict[str, int] = {}
        self._signing_key = b""
        #: The highest id the store has ever given.
        self._highest_id = 0

    def loaded(self, lives: Mapping[str, int], highest_id: int, signing_key: bytes) -> None:
        """The store was read: its history, the highest id it knows, and by what its orders are known."""
        self._lives = dict(lives)
        self._signing_key = signing_key
        self._highest_id = highest_id

    def begun(self, number: int) -> None:
        """This broker's own life is part of the history."""
        self._lives.setdefault(self.life, number)

    def stored(self, ids: Iterable[int]) -> None:
        """These jobs were stored."""
        self._highest_id = max([self._highest_id, *ids])

    @property
    def _furthest(self) -> int:
        return min(self._highest_id + LEAP_MAX, ID_MAX - 1)

    def is_ahead(self, seen: StorePosition | None, number: int) -> bool:
        """Whether somebody has seen more of this store's history than the store holds."""
        if seen is None:
            return False
        lives = list(self._lives)
        if seen.life not in self._lives:
            # Lives are kept for long but not for ever: one from before the first that is kept is only old.
            return seen.commit > min(self._lives.values(), default=0)
        following = lives[lives.index(seen.life) + 1 :]
        return seen.commit > (self._lives[following[0]] if following else number)

    def hello(self, batch: Batch, hello: Hello) -> Orders:
        """A worker on a fresh connection says what it holds: ask for what is forgotten, let go what was removed."""
        name = hello.info.name
        held = [each for each in hello.held[:HELD_MAX] if 0 < each[0] <= self._furthest and 0 < each[1] <= ATTEMPT_MAX]
        if len(hello.held) > HELD_MAX:
            log.warning("held_not_compared worker=%s attempts=%s", name, len(hello.held) - HELD_MAX)
        highest = max([job for job, _ in held], default=0)
        if hello.seen is not None:
            highest = max(highest, min(hello.seen.highest_id, self._furthest))
        batch.next_id = max(batch.next_id, highest + 1)
        # It begins anew: what it was asked on an earlier connection is asked again, if it still holds it.
        self.state.asked = {attempt: each for attempt, each in self.state.asked.items() if each.worker != name}
        doubted = self.is_ahead(hello.seen, batch.store.number) or name in batch.board.unreconciled
        found = reconcile.unknown(held, _known(batch, held), self._highest_id, restored=doubted)
        self.state.spoken.add(name)
        if found.forgotten or self.is_ahead(hello.seen, batch.store.number):
            self._restored(batch, name)
        for job, attempt in found.unwanted:
            self.fence(name, Stop(job, attempt, STOP_GRACE_S, hello.info.boot))
        orders: Orders = [(name, stop) for worker, stop in self.state.fenced.values() if worker == name]
        orders += [self._ask(batch, name, attempt) for attempt in found.forgotten]
        self._settle(batch, name)
        return orders + _forget(batch, name, found.removed)

    def _restored(self, batch: Batch, name: str) -> None:
        """The store is older than what a worker knows: who has not spoken yet may have run anything."""
        if self.state.restored:
            return
        self.state.restored = True
        missing = batch.board.worker_states.keys() - self.state.spoken
        _unreconciled(batch, batch.board.unreconciled | missing)
        log.error(
            "restored_from_backup worker=%s has seen more than the store holds; nothing is started until these have "
            "spoken: %s (`grass resume --restored` goes on without them)",
            name,
            ", ".join(sorted(missing)) or "none is missing",
        )

    def _ask(self, batch: Batch, worker: str, attempt: AttemptId) -> tuple[str, Order]:
        before = self.state.asked.get(attempt)
        times = 1 if before is None else before.times + 1
        self.state.asked[attempt] = AskedRecall(worker, batch.mono, times)
        return worker, Recall(*attempt)

    def _settle(self, batch: Batch, worker: str) -> None:
        """A worker is in doubt until it has told everything: what it was still asked for must not be started again."""
        asked = any(each.worker == worker for each in self.state.asked.values())
        if asked:
            _unreconciled(batch, batch.board.unreconciled | {worker})
        elif not asked and worker in self.state.spoken:
            _unreconciled(batch, batch.board.unreconciled - {worker})

    def is_asked(self, worker: str, attempt: AttemptId) -> bool:
        """Whether a worker has still to tell what an attempt was."""
        asked = self.state.asked.get(attempt)
        return asked is not None and asked.worker == worker

    def is_forgotten(self, batch: Batch, job: Job | None, attempt: AttemptId) -> bool:
        """Whether a report is of an attempt that the store must have forgotten."""
        if attempt in self.state.untold or attempt[0] > self._furthest:
            return False
        if job is not None:
            return attempt[1] > job.attempt
        if attempt[0] <= self._highest_id and not batch.board.unreconciled:
            return False
        return not _known(batch, [attempt])

    def ask(self, batch: Batch, worker: str, attempt: AttemptId) -> Orders:
        """A report came of an attempt nobody knows here: what was it?"""
        if len(self.state.asked) >= HELD_MAX:
            return []  # it is repeated, and asked about when some of the others are told
        batch.next_id = max(batch.next_id, attempt[0] + 1)
        self._restored(batch, worker)
        order = self._ask(batch, worker, attempt)
        self._settle(batch, worker)
        return [order]

    def recalled(self, batch: Batch, worker: str, start: Start) -> Orders:
        """A worker tells what it was once ordered to run: the job comes back as it was, and a report follows."""
        if not self.is_asked(worker, start.id):
            log.error("recalled_unasked worker=%s job=%s attempt=%s", worker, *start.id)
            return []
        del self.state.asked[start.id]
        if not is_ours(start, self._signing_key):
            log.error("recalled_unsealed worker=%s job=%s attempt=%s: nobody here ordered that", worker, *start.id)
            self._give_up(batch, worker, start.id)
            return []
        # Who has the folder is its worker, also when it was called otherwise before.
        start = replace(start, placement=replace(start.placement, worker=worker))
        job = _known(batch, [start.id]).get(start.job)
        orders: Orders = []
        if job is None:
            _bring_back(batch, start)
        elif (job.spec.command, job.spec.queue) != (start.spec.command, start.spec.queue):
            # Given before anybody knew of the backup. The folder there stays; this job must not find it as its own.
            log.error("recalled_another_job worker=%s job=%s attempt=%s", worker, *start.id)
            _skip_to(batch, job, start.attempt)
        elif job.state not in FINAL:
            batch.move(job, Adopt(start.attempt, start.placement))
        else:
            # It ended here while that was asked, as by a kill: nobody wants the attempt any more.
            orders = [(worker, self.fence(worker, Stop(*start.id, STOP_GRACE_S, start.placement.boot)))]
        self._settle(batch, worker)
        return orders

    def reported(self, worker: str, attempt: AttemptId) -> None:
        """An attempt has ended, as its worker says."""
        fenced = self.state.fenced.get(attempt)
        if fenced is not None and fenced[0] == worker:
            del self.state.fenced[attempt]

    def fence(self, worker: str, stop: Stop) -> Stop:
        """Nobody wants an attempt any more, which its worker may not know: should it run on, it is stopped."""
        self.state.fenced[stop.id] = (worker, stop)
        while len(self.state.fenced) > FENCED_MAX:
            del self.state.fenced[next(iter(self.state.fenced))]
        return stop

    def look(self, batch: Batch) -> Orders:
        """Ask again what was not told; give up what a worker cannot tell."""
        orders: Orders = []
        for attempt, asked in list(self.state.asked.items()):
            if not _in_touch(batch.board, asked) or batch.mono - asked.at < reconcile.RESEND_S:
                continue
            if asked.times < RECALL_TRIES:
                orders.append(self._ask(batch, asked.worker, attempt))
                continue
            del self.state.asked[attempt]
            self._give_up(batch, asked.worker, attempt)
        return orders

    def _give_up(self, batch: Batch, worker: str, attempt: AttemptId) -> None:
        log.error("recall_given_up worker=%s job=%s attempt=%s", worker, *attempt)
        self.state.untold[attempt] = None
        while len(self.state.untold) > UNTOLD_MAX:
            del self.state.untold[next(iter(self.state.untold))]
        job = batch.alive(attempt[0])
        if job is not None and job.state not in HOLDING:
            if job.state is not State.HELD:
                job = batch.move(job, Hold())
            ran = f"worker {worker} ran attempt {attempt[1]} of it after the backup and cannot say more"
            held = replace(job, reason=f"{ran}; `grass release {job.id}` runs it again")
            batch.set(job, held)
            _skip_to(batch, held, attempt[1])
        self._settle(batch, worker)

    def next_look(self, board: Board) -> float:
        """When something is to be asked again of those in touch, on the monotonic clock."""
        due = [each.at for each in self.state.asked.values() if _in_touch(board, each)]
        return min(due, default=float("inf")) + reconcile.RESEND_S


def _in_touch(board: Board, asked: AskedRecall) -> bool:
    worker_state = board.worker_states.get(asked.worker)
    return worker_state is not None and worker_state.online


def _known(batch: Batch, held: Iterable[AttemptId]) -> dict[int, Job]:
    """Those of some jobs that are stored, as they are by now."""
    return batch.fetch({job for job, _ in held})


def _unreconciled(batch: Batch, unreconciled: set[str]) -> None:
    if unreconciled != batch.board.unreconciled:
        batch.board.unreconciled = unreconciled
        batch.changes.unreconciled = set(unreconciled)


def _forget(batch: Batch, worker: str, removed: list[int]) -> Orders:
    """Let a worker delete the folders of removed jobs; those of this machine's own are `doctor`'s to show."""
    if not removed or worker in batch.board.roles.shares_disk:
        return []
    spare = tuple(sorted(batch.store.rerun_jobs() & set(removed)))
    return [(worker, Forget(tuple(removed[at : at + FORGET_MAX]), spare)) for at in range(0, len(removed), FORGET_MAX)]


def _bring_back(batch: Batch, start: Start) -> None:
    """Store a job again that only its worker remembers."""
    environment = msgspec.msgpack.encode(start.env)
    spec = replace(start.spec, env_digest=hashlib.sha256(environment).digest())
    batch.changes.environments[spec.env_digest] = environment
    batch.bring_back(
        Job(
            id=start.job,
            spec=spec,
            name=start.name,
            state=State.PLACED,
            created=batch.now,
            attempt=start.attempt,
            placement=start.placement,
            # How its earlier tries went is not known; the one that is told now counts as the last at worst.
            tried=min(start.attempt, spec.tries) - 1,
            rerun_of=start.checkpoint_of,
        )
    )


def _skip_to(batch: Batch, job: Job, attempt: int) -> None:
    """Let the next attempt of a job be one that no worker has a folder of."""
    if job.state not in HOLDING and job.state not in FINAL and attempt > job.attempt:
        batch.set(job, replace(job, attempt=attempt))
