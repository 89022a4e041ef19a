"""Scans of jobs: every store gives the same pages, in either order, and reads no more rows than it gives."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import T0, a_job
from tests.store.batches import new

from grassq.core.model import ID_MAX, Job, Outcome, State
from grassq.core.query.query import Columns, JobFacts, facts_of
from grassq.store.base import Changes, JobScan
from grassq.store.reading.facts import FactSource
from grassq.store.relational import Store


def ended_at(job: Job, at: float, state: State = State.SUCCEEDED) -> tuple[Job, Job]:
    how = {"outcome": Outcome.EXITED, "exit_code": 0 if state is State.SUCCEEDED else 1}
    return job, replace(job, state=state, finished=at, **how)


@pytest.fixture
def filled(store: Store) -> Store:
    """Nine jobs: odd ones in queue q, 3 and 4 called n, 1 to 6 ended, two of them at the same time, 6 failed."""
    jobs = [
        replace(a_job(id_, queue="q" if id_ % 2 else "default"), name="n" if id_ in (3, 4) else None)
        for id_ in range(1, 10)
    ]
    store.commit(new(*jobs))
    times = {1: T0 + 30, 2: T0 + 10, 3: T0 + 20, 4: T0 + 20, 5: T0 + 50, 6: T0 + 40}
    store.commit(
        Changes(
            updated={
                id_: ended_at(jobs[id_ - 1], at, State.FAILED if id_ == 6 else State.SUCCEEDED)
                for id_, at in times.items()
            }
        )
    )
    return store


def all_of(store: Store, scan: JobScan) -> list[int]:
    """The ids of a scan, two at a time."""
    found: list[int] = []
    while jobs := store.scan(scan, 2):
        assert len(jobs) <= 2
        found += [job.id for job in jobs]
        scan = replace(scan, after=(jobs[-1].finished or 0.0, jobs[-1].id))
    return found


@pytest.mark.parametrize(
    ("scan", "ids"),
    [
        (JobScan(), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (JobScan(descending=True), [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (JobScan(queue="q"), [1, 3, 5, 7, 9]),
        (JobScan(queue="q", descending=True), [9, 7, 5, 3, 1]),
        (JobScan(name="n", descending=True), [4, 3]),
        (JobScan(state=State.FAILED), [6]),
        (JobScan(state=State.QUEUED, descending=True), [9, 8, 7]),
        (JobScan(sort="finished"), [2, 3, 4, 1, 6, 5]),
        (JobScan(sort="finished", descending=True), [5, 6, 1, 4, 3, 2]),
    ],
    ids=str,
)
def test_every_page_goes_on_where_the_last_one_ended(filled: Store, scan: JobScan, ids: list[int]) -> None:
    assert all_of(filled, scan) == ids


def test_every_name_is_listed_once_from_a_prefix_on(store: Store) -> None:
    names = [None, "train", "fit", "train", "train-2", "Train", "eval", "zürich"]
    store.commit(new(*(replace(a_job(id_), name=name) for id_, name in enumerate(names, 1))))
    assert set(store.names("", 10)) == {"train", "fit", "train-2", "Train", "eval", "zürich"}
    assert sorted(store.names("train", 10)) == ["train", "train-2"] and len(store.names("", 2)) == 2
    assert store.names("zü", 10) == ["zürich"] and store.names("no", 10) == []


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        (("", ""), [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (("queue", "q"), [9, 7, 5, 3, 1]),
        (("name", "n"), [4, 3]),
        (("state", "queued"), [9, 8, 7]),
        (("project", "p"), []),
    ],
    ids=str,
)
def test_facts_come_from_the_newest_job_on_and_say_what_the_job_is(
    filled: Store, source: FactSource, ids: list[int]
) -> None:
    found: list[JobFacts] = []
    while some := filled.facts(source, found[-1].id if found else ID_MAX + 1, 2, Columns()):
        found += some
    assert [each.id for each in found] == ids
    for columns in (Columns(), Columns(3, True, True, True)):
        facts = {each.id: each for each in filled.facts_of([*range(0, 12)], columns)}
        assert [*sorted(facts)] == [*range(1, 10)]
        for job in filled.some([*facts]):
            whole = facts_of(job)
            plain = replace(whole, worker=None, request=(), command="")
            assert facts[job.id] == (plain if columns == Columns() else whole)
