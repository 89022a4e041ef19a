"""The index of dependencies, beside the plain rules of each condition."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.waiting.conditions import Condition, Dependency, in_words
from grassq.core.waiting.dependencies import Dependencies, Verdict, decided

CONDITIONS: list[Condition] = ["ok", "any", "fail"]

#: By waiting job: the jobs below it that it waits for, and for what.
graphs = st.integers(2, 8).flatmap(
    lambda count: st.fixed_dictionaries(
        {
            child: st.sets(st.tuples(st.integers(1, child - 1), st.sampled_from(CONDITIONS)), max_size=6)
            for child in range(2, count + 1)
        }
    )
)


def verdict_of(on: set[tuple[int, Condition]], ended: dict[int, bool]) -> Verdict:
    """What the conditions of a job amount to, by their definitions."""
    parents = {condition: [parent for parent, each in on if each == condition] for condition in CONDITIONS}
    can = [
        all(ended.get(parent, True) for parent in parents["ok"]),
        not parents["fail"] or any(not ended.get(parent, False) for parent in parents["fail"]),
    ]
    holds = [
        all(ended.get(parent, False) for parent in parents["ok"]),
        all(parent in ended for parent in parents["any"]),
        not parents["fail"] or any(not ended.get(parent, True) for parent in parents["fail"]),
    ]
    return Verdict.NEVER if not all(can) else Verdict.READY if all(holds) else Verdict.WAITS


@given(graphs, st.data())
def test_every_job_is_decided_once_and_as_its_conditions_say(graph: dict[int, Any], data: st.DataObject) -> None:
    index = Dependencies()
    for child, on in graph.items():
        if on:
            index.add(child, "default", sorted(on))
    ended: dict[int, bool] = {}
    found: dict[int, Verdict] = {}
    everyone = [1, *graph]
    for job in data.draw(st.permutations(everyone)):
        ended[job] = data.draw(st.booleans())
        for child, verdict in index.end(job, succeeded=ended[job]):
            assert child not in found, "a job is decided once"
            found[child] = verdict
            assert verdict is verdict_of(graph[child], ended)
        for child, on in graph.items():
            assert (child in found) == (bool(on) and verdict_of(on, ended) is not Verdict.WAITS)


@given(graphs, st.dictionaries(st.integers(1, 8), st.booleans()))
def test_what_has_ended_before_a_submission_counts_as_if_it_ended_after_it(
    graph: dict[int, Any], ended: dict[int, bool]
) -> None:
    for on in graph.values():
        verdict, against = decided(sorted(on), ended)
        assert verdict is verdict_of(on, ended)
        assert (against in ended) == (verdict is Verdict.NEVER)


def test_jobs_that_wait_are_counted_by_queue_until_they_are_dropped() -> None:
    index = Dependencies([(1, 3, "ok"), (2, 3, "ok"), (2, 4, "any")], {3: "a", 4: "b"})
    assert (index.in_queue("a"), index.in_queue("b"), len(index)) == (1, 1, 2)
    assert (index.left(3), index.dependents(2), index.concerns(1), index.concerns(9)) == (2, [3, 4], True, False)
    assert index.end(1, succeeded=True) == [] and index.end(2, succeeded=True) == [
        (3, Verdict.READY),
        (4, Verdict.READY),
    ]
    assert 3 in index, "a job waits until the caller drops it"
    index.drop(3)
    assert (3 in index, index.in_queue("a"), index.dependents(2)) == (False, 0, [])


def test_a_condition_is_told_in_words() -> None:
    assert in_words([Dependency("ok", ((12, 12),))]) == "after job 12"
    several = [Dependency("any", ((3, 7), (9, 9))), Dependency("fail", ((1, 1),))]
    assert in_words(several) == "after the end of jobs 3-7, 9 and after a failure of job 1"
    assert in_words([Dependency("ok", tuple((n, n) for n in range(1, 20, 2)))]) == "after jobs 1, 3, 5, and 7 more"
