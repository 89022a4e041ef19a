"""The order of a table: whatever is added, changed and removed, it is what sorting anew would give."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.broker.windows import job_order
from grassq.broker.windows.job_order import TABLE_SORTS, JobOrder, RowCollector, TableSort
from grassq.core.names import STATES
from grassq.core.query.query import JobFacts, duration_of

NOW = 1000.0
times = st.none() | st.floats(0, 100).map(lambda at: round(at))


@st.composite
def facts(draw: st.DrawFn, id_: int) -> JobFacts:
    """A job with few different values, so that many are equal."""
    return JobFacts(
        id_,
        draw(st.sampled_from(STATES)),
        draw(st.sampled_from(["q", "r"])),
        draw(st.none() | st.sampled_from(["a", "b", "ab"])),
        draw(st.integers(28, 31)),
        0.0,
        draw(times),
        draw(times),
        worker=draw(st.none() | st.sampled_from(["w", "v"])),
    )


def sorted_anew(jobs: dict[int, JobFacts], sort: TableSort, *, descending: bool) -> list[int]:
    """The ids in order, by the plainest code: jobs without a key are last."""

    def key(job: JobFacts) -> float | str | None:
        if sort == "id":
            return job.id
        if sort == "state":
            return STATES.index(job.state)
        if sort == "duration":
            return duration_of(job, NOW)
        value: float | str | None = getattr(job, sort)
        return value

    keyed = sorted((key(job), id_) for id_, job in jobs.items() if key(job) is not None)
    bare = sorted(id_ for id_, job in jobs.items() if key(job) is None)
    ids = [id_ for _, id_ in keyed]
    return ids[::-1] + bare[::-1] if descending else ids + bare


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(TABLE_SORTS), st.sampled_from([0, 48]))
def test_a_patched_order_is_the_order_of_the_jobs_as_they_are(data: st.DataObject, sort: TableSort, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_order, "FEW_ROWS", few)
        patch.setattr(job_order, "RUN_ROWS", 3 if few else 100)
        _play(data, sort)


def _play(data: st.DataObject, sort: TableSort) -> None:
    jobs = {id_: data.draw(facts(id_)) for id_ in data.draw(st.sets(st.integers(1, 300), max_size=20))}
    rows = RowCollector(sort)
    rows.add([*jobs.values()], NOW)
    order = JobOrder(rows)
    for _ in range(3):
        for descending in (False, True):
            wanted = sorted_anew(jobs, sort, descending=descending)
            assert order.slice(0, 1000, descending=descending) == wanted
            assert order.slice(3, 4, descending=descending) == wanted[3:7]
        assert [*order.ids()] == sorted(jobs)
        assert order.state_counts() == Counter(job.state for job in jobs.values())
        assert order.queue_counts() == Counter(job.queue for job in jobs.values())
        changed = data.draw(st.sets(st.sampled_from([*jobs]) if jobs else st.nothing()) | st.sets(st.integers(1, 400)))
        after = {id_: data.draw(facts(id_)) for id_ in changed if data.draw(st.booleans())}
        jobs = {id_: job for id_, job in jobs.items() if id_ not in changed} | after
        order.patch(changed, [*after.values()], NOW)
