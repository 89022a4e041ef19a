"""What a sweep that is applied again has to run, by properties: applied twice, the second time changes nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.core.names import STATES
from grassq.core.sweeps.difference import Difference, PointJob, difference, point_of, replaced, unfinished
from grassq.core.sweeps.parameters import Parameters

FINAL = ("succeeded", "failed", "cancelled")
_WANTED = st.lists(st.sampled_from(["", "d1", "d2"]), max_size=9)
_THERE = st.lists(st.tuples(st.sampled_from(["", *STATES]), st.sampled_from(["d1", "d2", None])), max_size=9)

Wanted = dict[Parameters, str]
There = dict[Parameters, PointJob]


def a_point(number: int) -> Parameters:
    return (("x", str(number)),)


def applied(wanted: Wanted, there: There, found: Difference) -> There:
    """Return the newest jobs of all points after an application."""
    over = {id_: "cancelled" for id_ in replaced(found, there)}
    after = {point: PointJob(job.id, over.get(job.id, job.state), job.digest) for point, job in there.items()}
    return after | {point: PointJob(100, "queued", wanted[point]) for point in found.runs}


@settings(max_examples=60)
@given(_WANTED, _THERE)
def test_a_sweep_that_is_applied_runs_what_is_new_changed_or_failed(
    digests: list[str], jobs: list[tuple[str, str | None]]
) -> None:
    wanted: Wanted = {a_point(number): digest for number, digest in enumerate(digests) if digest}
    there: There = {a_point(n): PointJob(n + 1, state, digest) for n, (state, digest) in enumerate(jobs) if state}
    found = difference(wanted, there)

    kinds = [found.new, found.changed, found.again, found.kept, found.gone]
    assert sorted(point for kind in kinds for point in kind) == sorted({*wanted} | {*there}), "each point in one kind"
    assert {*found.new} == {*wanted} - {*there} and {*found.gone} == {*there} - {*wanted}

    for point in found.runs & there.keys():
        job = there[point]
        assert job.state not in ("running", "placed"), "what runs is left"
        assert job.state in ("failed", "cancelled") or job.digest != wanted[point], "what is done is left"

    ended = {*replaced(found, there)} | {*unfinished(found, there)}
    assert ended <= {job.id for job in there.values() if job.state not in FINAL}

    again = difference(wanted, applied(wanted, there, found))
    assert not again.runs and {*again.kept} == {*wanted}, "applied again, it runs nothing"


def test_a_point_is_its_values_whatever_their_order() -> None:
    assert point_of((("b", "1"), ("a", "2"))) == point_of((("a", "2"), ("b", "1")))
