"""What every store keeps of jobs that start after others."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import a_job
from tests.store.batches import MANY, ended, kept, new

from grassq.core.model import ForJobs, ForTime, State
from grassq.core.waiting.conditions import Dependency
from grassq.store.base import Changes
from grassq.store.relational import Store


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


def test_what_a_job_waits_for_is_stored_as_it_was(store: Store) -> None:
    after = (Dependency("ok", ((1, 1), (3, 9))), Dependency("fail", ((2, 2),)))
    waits = (ForJobs(), ForTime(9.5)), (ForTime(7.5, 0.25),), (ForJobs(),)
    jobs = [replace(a_job(id_, state=State.WAITING), waits=each) for id_, each in enumerate(waits, 1)]
    jobs[2] = replace(jobs[2], state=State.HELD, spec=replace(jobs[2].spec, dependencies=after))
    store.commit(new(*jobs))
    assert [kept(store, id_).waits for id_ in (1, 2, 3)] == [*waits]
    assert kept(store, 3).spec.dependencies == after
    assert [job.id for job in store.load(0).jobs] == [1, 2], "those whose time comes are loaded whole"
