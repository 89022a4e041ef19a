"""Sweeps in a store: read back whole, found by name, counted, and gone with their last job; on each engine."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import a_job
from tests.store.batches import ended, kept, new, text

from grassq.core.sweeps.sweep import Sweep
from grassq.store.base import Changes, JobScan
from grassq.store.relational import Store


def a_sweep(id_: int, **more: object) -> Sweep:
    return replace(Sweep(id=id_, name="fit", kind="file", definition="x", created=7.5, is_open=True), **more)


def test_a_sweep_is_kept_with_its_jobs_until_the_last_of_them_is_removed(store: Store) -> None:
    jobs = [a_job(id_) for id_ in (1, 2, 3, 4)]
    own = [
        replace(job, spec=replace(job.spec, sweep=2, array_index=9, array_of=(3, 7, 9), point="p")) for job in jobs[1:]
    ]
    store.commit(new(jobs[0], *own))
    sweep = a_sweep(2, at_once=3, max_fails=4, stopped="why", counted_from=2**32 - 1, token="0badc0de")
    store.commit(Changes(sweeps={2: sweep, 9: a_sweep(9, is_open=False)}))
    assert store.sweeps([2, 3]) == {2: sweep}
    assert store.open_sweeps() == [sweep]
    assert [each.id for each in store.newest_sweeps(5)] == [9, 2] and [each.id for each in store.newest_sweeps(1)] == [
        9
    ]
    others = {id_: a_sweep(id_, kind="array", is_open=False) for id_ in range(20, 80)}
    store.commit(Changes(sweeps=others | {10: a_sweep(10, token="other", is_open=False)}))
    newest = [store.sweep_file(*asked) for asked in (("fit", None), ("fit", "0badc0de"), ("fit", ""), ("x", None))]
    assert [each and each.id for each in newest] == [9, 2, 9, None]
    spec = kept(store, 3).spec
    assert (spec.sweep, spec.array_index, spec.array_of, spec.point) == (2, 9, (3, 7, 9), "p")
    assert text(store, "sweep:2") == [2, 3, 4] and text(store, "sweep:3") == []
    assert [job.id for job in store.scan(JobScan(sweep=2, descending=True), 2)] == [4, 3]
    assert store.of_sweep(2) == store.in_sweep(2) == {"queued": 3} and store.last_of_sweep(2) == 4

    ended(store, 2, code=1)
    ended(store, 3)
    assert store.of_sweep(2) == {"queued": 1, "failed": 1, "succeeded": 1}
    assert (store.failed_in_sweep(2, 0), store.failed_in_sweep(2, 3)) == (1, 0)
    store.commit(Changes(removed=[2, 3]))
    assert store.sweeps([2]) and store.of_sweep(2) == {"queued": 1}
    ended(store, 4)
    store.commit(Changes(removed=[4]))
    assert not store.sweeps([2]) and store.last_of_sweep(2) == 0
