"""What a store promises where jobs are many: what is loaded of them, found by id, counted along and removed."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import fields, replace
from tests.builders import T0, a_job, a_placement, a_request
from tests.store.batches import DIGEST, MANY, ended, kept, new, text

from grassq.core.model import FINAL, HOLDING, Constraints, ForQueue, ForTime, Job, Outcome, RemoteSubmitter, Spec, State
from grassq.core.planner.request_classes import Shape
from grassq.core.syntax.selectors import parse
from grassq.errors import GuardFailed, StoreUnavailable
from grassq.store import rows, sql
from grassq.store.base import Attempt, Changes, Story, WaitingGroup
from grassq.store.relational import Store
from grassq.store.sqlite import SqliteStore
from grassq.store.tallies import NAMES_MAX

Opened = Callable[[str], Store]
CONSTRAINTS = [
    Constraints(),
    Constraints(worker="w"),
    Constraints(labels=("a", "b"), remote=RemoteSubmitter(env=(b"X",), shell=True)),
]


def shape_of(job: Job) -> Shape:
    """What the planner groups a job by."""
    return job.spec.queue, job.spec.request, job.spec.constraints


def any_job(chance: random.Random, id_: int) -> Job:
    """A job in some state that is not final."""
    state = chance.choice([State.QUEUED] * 4 + [State.WAITING, State.HELD, State.PLACED, State.RUNNING])
    job = a_job(
        id_,
        chance.choice(["default", "exp"]),
        state=state,
        priority=chance.choice([30, 30, -7, 1_000_000]),
        request=chance.choice([(), a_request(cpu=1), a_request(gpu=0.5, mem="1G")]),
    )
    reason = chance.choice([None, "no such queue", "too large"]) if state is State.WAITING else None
    waits = chance.choice([(ForQueue(),), (ForTime(7.5),), (ForTime(7.5), ForQueue())])
    spec = replace(job.spec, constraints=chance.choice(CONSTRAINTS), env_digest=DIGEST)
    return replace(job, spec=spec, reason=reason, waits=waits if state is State.WAITING else ())


def filled(store: Store, jobs: list[Job]) -> None:
    """Store jobs, and the attempts of those that hold something."""
    changes = new(*jobs)
    for job in jobs:
        if job.placement is not None:
            changes.attempts[job.attempt_id] = Attempt(job=job.id, number=job.attempt, placement=job.placement)
    store.commit(changes)


def by_hand(jobs: list[Job]) -> dict[tuple[State, Shape], WaitingGroup]:
    """What `Loaded.groups` should be."""
    groups: dict[tuple[State, Shape], list[Job]] = defaultdict(list)
    for job in jobs:
        if job.state is State.QUEUED or job.waits == (ForQueue(),):
            groups[job.state, shape_of(job)].append(job)
    return {
        (state, shape): WaitingGroup(state, shape, array("q", sorted(job.order for job in alike)))
        for (state, shape), alike in groups.items()
    }


# What a broker starts from.


@pytest.mark.parametrize("whole", [0, 1, 25, MANY])
def test_what_must_be_known_is_loaded_whole_and_the_others_by_shape(store: Store, whole: int) -> None:
    chance = random.Random(whole)
    jobs = [any_job(chance, id_) for id_ in range(3, 203)]
    filled(store, jobs)
    loaded = store.load(whole)
    busy = [job for job in jobs if job.state in HOLDING or job.ready_at is not None]
    calm = [job for job in jobs if job not in busy]
    assert busy and len(calm) > 50
    assert loaded.jobs == sorted(busy + calm[:whole], key=lambda job: job.id)
    assert {(group.state, group.shape): group for group in loaded.groups} == by_hand(jobs)
    assert len(loaded.groups) == len(by_hand(jobs)) and all(group.orders.typecode == "q" for group in loaded.groups)


def test_more_jobs_than_are_read_at_once_are_all_loaded(opened: Opened) -> None:
    store = opened("memory")
    store.commit(new(*[a_job(id_, cpu=1 + id_ % 3) for id_ in range(1, 5001)]))
    loaded = store.load(10)
    assert [job.id for job in loaded.jobs] == list(range(1, 11))
    assert sorted(len(group.orders) for group in loaded.groups) == [1666, 1667, 1667]


# Jobs of some ids.


def test_jobs_of_some_ids_come_by_id_and_missing_ones_are_left_out(store: Store) -> None:
    jobs = [a_job(id_) for id_ in range(1, 31)] + [a_job(31, state=State.RUNNING, placement=a_placement("v"))]
    filled(store, jobs)
    ended(store, 2)
    assert [job.id for job in store.some([31, 2, 99, 7, 2])] == [2, 7, 31]
    assert store.some([31]) == [kept(store, 31)] and store.some([31])[0].placement == a_placement("v")
    assert (store.some([]), store.some([77])) == ([], [])


@pytest.mark.parametrize("count", [1, 2, 3, sql.IDS_AT_ONCE - 1, sql.IDS_AT_ONCE, sql.IDS_AT_ONCE + 1, 2500])
def test_any_number_of_ids_can_be_asked_for(opened: Opened, count: int) -> None:
    store = opened("memory")
    store.commit(new(*[a_job(id_) for id_ in range(1, 2 * count + 1)]))
    odd = list(range(1, 2 * count + 1, 2))
    assert [job.id for job in store.some(odd)] == odd
    assert text(store, ",".join(map(str, odd)), MANY) == odd
    assert text(store, ",".join(map(str, odd)), 2) == odd[:2]


# Counting along.


def test_totals_are_those_of_the_rows_after_any_commits(store: Store) -> None:
    chance = random.Random(4)
    jobs: dict[int, Job] = {}
    store.load(0)
    for first in range(1, 200, 10):
        changes = new(*[any_job(chance, id_) for id_ in range(first, first + 10)])
        for job in chance.sample(sorted(jobs.values(), key=lambda job: job.id), min(6, len(jobs))):
            if job.state not in FINAL:
                changes.put(job, replace(job, state=State.CANCELLED, finished=5.0, outcome=Outcome.CANCELLED))
            else:
                changes.removed.append(job.id)
        store.commit(changes)
        jobs |= changes.inserted | {id_: after for id_, (_, after) in changes.updated.items()}
        for id_ in changes.removed:
            del jobs[id_]
        assert store.totals() == dict(Counter(job.state.value for job in jobs.values()))
    counted = store.totals()
    store.load(0)
    assert store.totals() == counted


def test_the_jobs_of_a_name_are_counted_along(store: Store) -> None:
    chance = random.Random(6)
    names = [f"n{number}" for number in range(NAMES_MAX + 5)]
    jobs: dict[int, Job] = {}
    store.load(0)
    for first in range(1, 150, 10):
        changes = new(
            *[replace(any_job(chance, id_), name=chance.choice(names[:4])) for id_ in range(first, first + 10)]
        )
        for job in chance.sample(sorted(jobs.values(), key=lambda job: job.id), min(6, len(jobs))):
            if job.state not in FINAL:
                changes.put(job, replace(job, state=State.CANCELLED, finished=5.0, outcome=Outcome.CANCELLED))
            elif first > 100:
                changes.removed.append(job.id)
        store.commit(changes)
        jobs |= changes.inserted | {id_: after for id_, (_, after) in changes.updated.items()}
        for id_ in changes.removed:
            del jobs[id_]
        # The first names are counted and kept, the last is asked for only now and then.
        for name in names[:3] if first % 40 > 20 else names[:4]:
            assert store.named(name) == dict(Counter(job.state.value for job in jobs.values() if job.name == name))
    for name in names:
        store.named(name)
    assert len(store.tallies.names) == NAMES_MAX and store.named("nobody") == {}


def test_what_a_token_uses_is_that_of_its_unfinished_rows_after_any_commits(store: Store) -> None:
    chance = random.Random(5)
    tokens = ("aaaaaaaa", "bbbbbbbb", None)
    jobs: dict[int, Job] = {}
    store.load(0)
    for first in range(1, 100, 10):
        changes = new(*[replace(any_job(chance, id_), token=chance.choice(tokens)) for id_ in range(first, first + 10)])
        for job in chance.sample(sorted(jobs.values(), key=lambda job: job.id), min(6, len(jobs))):
            if job.state is State.HELD:
                changes.put(job, replace(job, token=chance.choice(tokens)))
            elif job.state not in FINAL:
                changes.put(job, replace(job, state=State.CANCELLED, finished=5.0, outcome=Outcome.CANCELLED))
        store.commit(changes)
        jobs |= changes.inserted | {id_: after for id_, (_, after) in changes.updated.items()}
        for token in ("aaaaaaaa", "bbbbbbbb"):
            left = [id_ for id_, job in jobs.items() if job.token == token and job.state not in FINAL]
            assert (text(store, f"token:{token}", MANY), store.tallies.of_token(token).jobs) == (left, len(left))
    counted = [store.tallies.of_token(token) for token in ("aaaaaaaa", "bbbbbbbb", "cccccccc")]
    store.load(0)
    assert [store.tallies.of_token(token) for token in ("aaaaaaaa", "bbbbbbbb", "cccccccc")] == counted
    assert counted[0].bytes > counted[0].jobs and counted[2].bytes == 0


def test_totals_are_right_after_a_commit_that_failed(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2, state=State.HELD)))
    wrong = replace(kept(store, 1), state=State.HELD)
    assert store.totals() == {"queued": 1, "held": 1}
    changes = new(a_job(3))
    changes.updated = {1: (wrong, replace(wrong, state=State.QUEUED))}
    for _ in range(2):
        with pytest.raises(GuardFailed):
            store.commit(changes)
        assert store.totals() == {"queued": 1, "held": 1}
    store.commit(new(a_job(3)))
    assert store.totals() == {"queued": 2, "held": 1}
    ended(store, 1)
    store.commit(Changes(removed=[1]))
    store.load(0)
    assert store.totals() == {"queued": 1, "held": 1}


def test_who_was_given_totals_cannot_change_them(store: Store) -> None:
    store.commit(new(a_job(1)))
    store.totals()["queued"] = 99
    assert store.totals() == {"queued": 1}


# Writing only what changed.


def test_a_change_to_nothing_is_guarded_too(store: Store) -> None:
    store.commit(new(a_job(1)))
    job = kept(store, 1)
    store.commit(Changes(updated={1: (job, job)}))
    assert kept(store, 1) == job
    wrong = replace(job, attempt=3)
    with pytest.raises(GuardFailed):
        store.commit(Changes(updated={1: (wrong, wrong)}))


def test_what_an_attempt_was_said_to_be_can_be_taken_back(store: Store) -> None:
    store.commit(new(a_job(1)))
    first = Attempt(job=1, number=1, placement=a_placement("w"))
    over = replace(first, pid=9, started=1.0, ended=2.0, outcome=Outcome.SIGNALLED, signal=9, error="e")
    for said in (over, replace(over, signal=None, exit_code=1, outcome=Outcome.EXITED, error=None), first, over):
        store.commit(Changes(attempts={(1, 1): said}))
        assert store.attempts(1) == [said]


def test_lines_of_one_commit_stay_in_order_whatever_their_time(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2)))
    lines = [Story(1 + n % 2, float(n % 5), f"line {n}") for n in range(40)]
    store.commit(Changes(story=lines[:30]))
    store.commit(Changes(story=lines[30:]))
    for job in (1, 2):
        submitted = Story(job, T0, "submitted", "queue default")
        assert store.story(job) == [submitted, *[line for line in lines if line.job == job]]


def test_every_field_of_a_spec_has_its_place_in_a_row() -> None:
    columns = {"queue", "request", "constraints", "env_digest"}
    placed = {field.name for field in fields(rows._Rest)} - {"later"}
    assert {field.name for field in fields(Spec)} == columns | placed | rows._LATER.keys()


# Removing.


def test_a_removal_takes_the_environments_of_its_jobs_and_looks_at_no_others(store: Store) -> None:
    bodies = [b"one", b"two", b"three"]
    digests = [hashlib.sha256(body).digest() for body in bodies]
    jobs = [a_job(id_) for id_ in range(1, 5)]
    used = [digests[0], digests[0], digests[1], digests[2]]
    placed = [replace(job, spec=replace(job.spec, env_digest=own)) for job, own in zip(jobs, used, strict=True)]
    store.commit(new(*placed, environments=dict(zip(digests, bodies, strict=True))))
    for job in (1, 3, 4):
        ended(store, job)
    store.commit(Changes(removed=[1, 3]))
    assert [store.environment(digest) for digest in digests] == [b"one", None, b"three"]


def test_many_jobs_are_removed_with_all_they_left(opened: Opened) -> None:
    store = opened("memory")
    ids = list(range(1, 2 * sql.IDS_AT_ONCE + 7))
    born = [replace(a_job(id_), state=State.CANCELLED, finished=1.0, outcome=Outcome.CANCELLED) for id_ in ids]
    store.commit(new(*born, a_job(9999)))
    store.commit(Changes(story=[Story(id_, 1.0, "x") for id_ in ids]))
    with pytest.raises(GuardFailed, match="job 9999 is not finished"):
        store.commit(Changes(removed=[*ids, 9999]))
    store.commit(Changes(removed=ids))
    assert (text(store, "all", MANY), store.totals(), store.story(1)) == ([9999], {"queued": 1}, [])
    assert store.load(MANY).highest_id == 9999


# No question reads everything.

ASKED: dict[str, Callable[[Store], object]] = {
    "recent": lambda store: store.recent(1.0, 100),
    "some": lambda store: store.some([1, 2, 3]),
    "queue": lambda store: store.jobs(parse("queue:q"), 1),
    "token": lambda store: store.jobs(parse("token:0a1b2c3d"), 100),
    "name": lambda store: store.jobs(parse("name:n"), 1),
    "last": lambda store: store.jobs(parse("@"), 1),
    "reruns": lambda store: store.rerun_jobs(),
    "runs": lambda store: store.reruns([1, 2]),
    "story": lambda store: store.story(1),
    "attempts": lambda store: store.attempts(1),
    "load": lambda store: store.load(10),
    "remove": lambda store: store.commit(Changes(removed=[1])),
}


def _ask(store: Store, asked: str) -> None:
    if asked in ASKED:
        ASKED[asked](store)
    else:
        store.jobs(parse(asked), 100)


@pytest.mark.parametrize("asked", [*ASKED, *State])
def test_no_question_walks_through_all_jobs(tmp_path: Path, asked: str) -> None:
    store = SqliteStore(str(tmp_path / "store.db"))
    store.commit(new(*[a_job(id_) for id_ in range(1, 4)]))
    ended(store, 1)
    statements: list[str] = []
    store._reopen = lambda: None  # type: ignore[method-assign]
    store._connection.set_trace_callback(statements.append)
    _ask(store, asked)
    store._connection.set_trace_callback(None)
    plans = [
        step[3]
        for statement in statements
        if statement.lstrip().startswith(("select", "delete", "update"))
        for step in store._connection.execute(f"explain query plan {statement}")
    ]
    walked = [step for step in plans if step.startswith(("SCAN job", "SCAN attempt", "SCAN event", "SCAN environment"))]
    # An index that has only what is asked for may be walked through.
    allowed = ("USING COVERING INDEX job_state", "USING COVERING INDEX job_finished", "USING COVERING INDEX job_rerun")
    bad = [step for step in walked if not any(words in step for words in allowed) and asked != "last"]
    assert plans and not bad, bad
    store.close()


# Writing many at once.


def test_many_jobs_go_in_at_once_exactly_as_few_do(store: Store) -> None:
    jobs = [
        replace(a_job(id_, cpu=1 + id_ % 2), name=chr(92) + f"é\t{id_}\n" if id_ % 400 == 0 else None, created=id_ / 7)
        for id_ in range(1, 1201)
    ]
    changes = new(*jobs)
    changes.story = [Story(id_, id_ / 3, "kind", "a\tb\\N") for id_ in range(1, 1201)]
    store.commit(changes)
    assert store.load(MANY).jobs == list(changes.inserted.values())
    assert store.story(800)[1:] == [changes.story[799]]
    with pytest.raises(StoreUnavailable):
        store.commit(new(*[a_job(id_) for id_ in range(1200, 2000)]))
    assert store.totals() == {"queued": 1200}
    store.load(0)
    store.commit(new(*[a_job(id_) for id_ in range(1201, 2000)]))
    assert store.totals() == {"queued": 1999}
