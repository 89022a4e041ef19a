"""What is committed is what is loaded, for any history of a job."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.batches import DIGEST, ENV, MANY, kept

from grassq.core.model import FINAL, ForQueue, Job, Outcome, Placement, Spec, State
from grassq.core.states import (
    Cancel,
    Event,
    Exited,
    Hold,
    Lost,
    Place,
    Ready,
    RefusedByWorker,
    Release,
    Started,
    Stuck,
    Unready,
    advance,
)
from grassq.errors import InvalidMove
from grassq.store.base import Attempt, Changes
from grassq.store.relational import Store
from grassq.store.sqlite import MEMORY, SqliteStore

words = st.binary(max_size=6).map(lambda word: word.replace(b"\0", b"0"))
pairs = st.lists(st.tuples(words, words), max_size=2).map(tuple)
sentences = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
times = st.none() | st.floats(0, 2e9)
specs = st.builds(
    Spec,
    command=st.lists(words, min_size=1, max_size=3).map(tuple),
    queue=st.sampled_from(["default", "exp"]),
    request=st.sampled_from([(), (("cpu", 1),), (("gpu", 500_000), ("vram", 10**15))]),
    cwd=words,
    env_digest=st.just(DIGEST),
    umask=st.integers(0, 0o777),
    shell=st.none() | words,
    env=pairs,
    own_cwd=st.booleans(),
    split=st.booleans(),
    keep_children=st.booleans(),
    grace_s=st.floats(0, 1e6),
    on_lost=st.sampled_from(["fail", "requeue"]),
    tries=st.integers(1, 3),
)
placements = st.builds(
    Placement,
    worker=st.sampled_from(["w", "v"]),
    boot=st.text("ab", max_size=2),
    allocation=st.sampled_from([{}, {"cpu": 1}, {"gpu": {"0": 500_000, "a:1": 1}, "cpu": 3}]),
    prefix=st.lists(words, max_size=2).map(tuple),
    cwd=st.none() | words,
    env=pairs,
)
attempts = st.integers(0, 4)
exits = st.one_of(
    st.builds(Exited, attempts, st.just(Outcome.EXITED), st.integers(0, 255), st.none(), sentences, times, times),
    st.builds(Exited, attempts, st.just(Outcome.SIGNALLED), st.none(), st.integers(1, 64), sentences, times, times),
    st.builds(Exited, attempts, st.just(Outcome.SPAWN_FAILED), error=sentences),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Place, placements),
    st.builds(Started, attempts, st.integers(1, 2**22)),
    exits,
    st.builds(Lost, attempts, st.sampled_from([Outcome.LOST, Outcome.UNKNOWN]), st.text("ab c")),
    st.builds(RefusedByWorker, attempts, st.text("ab c"), st.booleans()),
    st.builds(Stuck, attempts, st.text("ab c")),
    st.builds(Unready, st.text("ab c")),
    st.builds(Cancel, st.none() | st.floats(0, 60)),
    st.sampled_from([Hold(), Release(), Ready(ForQueue())]),
)


def _attempt_of(job: Job, placement: Placement) -> Attempt:
    return Attempt(
        job=job.id,
        number=job.attempt,
        placement=placement,
        pid=job.pid,
        started=job.started,
        ended=job.finished,
        outcome=job.outcome,
        exit_code=job.exit_code,
        signal=job.signal,
        error=job.error,
    )


histories = given(
    spec=specs, history=st.lists(events, max_size=12), name=sentences, rerun_of=st.none() | st.integers(1, 9)
)


def _check(store: Store, job: Job, history: list[Event]) -> None:
    store.commit(Changes(inserted={job.id: job}, environments={DIGEST: ENV}))
    tries: dict[int, Attempt] = {}
    for number, event in enumerate(history):
        try:
            after = advance(job, event, 10.0 + number)
        except InvalidMove:
            continue
        placement = after.placement or job.placement
        if placement is not None:
            tries[after.attempt] = _attempt_of(after, placement)
        changed = {(job.id, after.attempt): tries[after.attempt]} if placement else {}
        store.commit(Changes(updated={job.id: (job, after)}, attempts=changed))
        job = after
        # A finished job shows where its last attempt ran, also when it was cancelled after that.
        last = tries[job.attempt].placement if job.state in FINAL and job.attempt in tries else job.placement
        assert kept(store, job.id) == replace(job, placement=last)
        alive = [one for one in store.load(MANY).jobs if one.id == job.id]
        assert alive == ([] if job.state in FINAL else [job])
        assert store.attempts(job.id) == [tries[n] for n in sorted(tries)]


@settings(deadline=None, max_examples=150)
@histories
def test_any_history_of_a_job_is_kept_exactly(
    spec: Spec, history: list[Event], name: str | None, rerun_of: int | None
) -> None:
    store = SqliteStore(MEMORY)
    _check(store, Job(id=1, spec=spec, state=State.QUEUED, created=1.5, name=name, rerun_of=rerun_of), history)
    store.close()


def test_any_history_of_a_job_is_kept_exactly_on_every_engine(store: Store) -> None:
    ids = itertools.count(1)

    @settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @histories
    def check(spec: Spec, history: list[Event], name: str | None, rerun_of: int | None) -> None:
        job = Job(id=next(ids), spec=spec, state=State.QUEUED, created=1.5, name=name, rerun_of=rerun_of)
        _check(store, job, history)

    check()
