"""What every store keeps of jobs that start after others."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import a_job
from tests.store.batches import MANY, ended, kept, new

from grassq.core.model import ForJobs, ForTime, State
from grassq.core.waiting.conditions import Dependency
from grassq.store import sql
from grassq.store.base import Changes
from grassq.store.relational import Store
from grassq.store.sqlite import SqliteStore


def test_edges_are_loaded_until_they_are_met_and_kept_until_a_job_of_them_is_removed(store: Store) -> None:
    waiting = [replace(a_job(id_, queue="q", state=State.WAITING), waits=(ForJobs(),)) for id_ in (3, 4)]
    changes = new(a_job(1), a_job(2), *waiting)
    changes.edges = [(1, 3, "ok", 0), (2, 3, "any", 0), (1, 4, "fail", 0), (2, 4, "ok", 1)]
    store.commit(changes)
    loaded = store.load(MANY)
    assert sorted(loaded.edges) == [(1, 3, "ok"), (1, 4, "fail"), (2, 3, "any")] and loaded.queues == {3: "q", 4: "q"}
    store.commit(Changes(met=[1]))
    assert store.load(MANY).edges == [(2, 3, "any")]
    store.commit(Changes(freed=[3]))
    assert store.load(MANY).edges == []
    assert (store.dependents([1]), store.dependents([2]), store.dependents([1, 2, 9])) == ([3, 4], [3, 4], [3, 4])
    for id_ in (1, 3):
        ended(store, id_)
        store.commit(Changes(removed=[id_]))
    assert (store.dependents([1]), store.dependents([2])) == ([], [4])


def test_where_a_failure_is_enough_the_other_edges_of_this_condition_are_met(store: Store) -> None:
    waiting = [replace(a_job(id_, state=State.WAITING), waits=(ForJobs(),)) for id_ in (3, 4)]
    changes = new(a_job(1), a_job(2), *[replace(job, token="t") if job.id == 3 else job for job in waiting])
    changes.edges = [(1, 3, "fail", 0), (2, 3, "fail", 0), (2, 3, "ok", 0), (2, 4, "fail", 0)]
    store.commit(changes)
    store.commit(Changes(met=[1], failure_met=[3]))
    loaded = store.load(MANY)
    assert sorted(loaded.edges) == [(2, 3, "ok"), (2, 4, "fail")] and loaded.tokens == {3: "t"}


def test_freeing_a_job_does_not_look_through_the_unmet_edges_of_all_jobs(store: Store) -> None:
    changes = new(a_job(1))
    changes.edges = [(1, job, "ok", 0) for job in range(2, 6000)]
    store.commit(changes)
    explain = "explain query plan" if isinstance(store, SqliteStore) else "explain"
    for statement in (sql.MEET_JOBS, sql.MEET_FAIL):
        with store._writing():
            plan = str(store._all(f"{explain} {sql.of_ids(statement, 1)}", 77))
        assert "dependency_job" in plan and "dependency_unmet" not in plan


def test_what_a_job_waits_for_is_stored_as_it_was(store: Store) -> None:
    after = (Dependency("ok", ((1, 1), (3, 9))), Dependency("fail", ((2, 2),)))
    waits = (ForJobs(), ForTime(9.5)), (ForTime(7.5, 0.25),), (ForJobs(),)
    jobs = [replace(a_job(id_, state=State.WAITING), waits=each) for id_, each in enumerate(waits, 1)]
    jobs[2] = replace(jobs[2], state=State.HELD, spec=replace(jobs[2].spec, dependencies=after))
    store.commit(new(*jobs))
    assert [kept(store, id_).waits for id_ in (1, 2, 3)] == [*waits]
    assert kept(store, 3).spec.dependencies == after
    assert [job.id for job in store.load(0).jobs] == [1, 2], "those whose time comes are loaded whole"
