"""The index of dependencies, beside the plain rules of each condition."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.waiting import conditions
from grassq.core.waiting.conditions import Condition, Dependency, in_words
from grassq.core.waiting.dependencies import Dependencies, Verdict, decided, unmet_of
from grassq.errors import Refused

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


def restarted(left: set[tuple[int, Condition, int]], found: dict[int, Verdict]) -> Dependencies:
    """The index as it is made of the stored edges that are unmet."""
    return Dependencies([(parent, child, condition) for parent, condition, child in sorted(left) if child not in found])


@given(graphs, st.data())
def test_every_job_is_decided_once_and_as_its_conditions_say(graph: dict[int, Any], data: st.DataObject) -> None:
    everyone = data.draw(st.permutations([1, *graph]))
    # Some jobs have ended before the others are submitted.
    ended: dict[int, bool] = {job: data.draw(st.booleans()) for job in everyone[: data.draw(st.integers(0, 3))]}
    left = {(*on, child) for child, all_on in graph.items() for on in unmet_of(all_on, ended)}
    found = {child: verdict_of(on, ended) for child, on in graph.items() if on}
    found = {child: verdict for child, verdict in found.items() if verdict is not Verdict.WAITS}
    index = restarted(left, found)
    for job in everyone[len(ended) :]:
        if data.draw(st.booleans()):
            index = restarted(left, found)
        ended[job] = data.draw(st.booleans())
        left = {edge for edge in left if edge[0] != job}
        for child, verdict in index.end(job, succeeded=ended[job]):
            assert child not in found, "a job is decided once"
            if verdict is Verdict.FAILURE:
                left = {edge for edge in left if edge[1:] != ("fail", child)}
                continue
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


def test_ends_that_are_waited_for_are_counted_by_token_also_when_a_job_changes_hands() -> None:
    index = Dependencies([(1, 3, "ok"), (2, 3, "fail"), (4, 3, "fail"), (2, 5, "any")], {3: "a", 5: "b"}, {3: "t"})
    assert (index.edges, index.edges_of("t")) == (4, 3)
    assert index.end(2, succeeded=False) == [(3, Verdict.FAILURE), (5, Verdict.READY)]
    assert (index.edges, index.edges_of("t"), index.left(3)) == (1, 1, 1), "one failure is enough"
    index.move(3, "b", "u")
    assert (index.edges_of("t"), index.edges_of("u"), index.in_queue("a"), index.in_queue("b")) == (0, 1, 0, 2)
    index.drop(3)
    assert (index.edges, index.edges_of("u")) == (0, 0)


def test_more_ranges_than_a_job_may_have_are_refused_and_stored_ones_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "RANGES_MAX", 2)
    assert Dependency.on("ok", {5, 1, 2, 3}).ranges == ((1, 3), (5, 5))
    with pytest.raises(Refused, match="--after-any names jobs in 3 ranges of ids; 2 is the most"):
        Dependency.on("any", [1, 3, 5])
    stored = msgspec.msgpack.encode(Dependency("ok", tuple((n, n) for n in range(0, 300_000, 2))))
    assert msgspec.msgpack.decode(stored, type=Dependency).count == 150_000


def test_a_condition_is_told_in_words() -> None:
    assert in_words([Dependency("ok", ((12, 12),))]) == "after job 12"
    several = [Dependency("any", ((3, 7), (9, 9))), Dependency("fail", ((1, 1),))]
    assert in_words(several) == "after the end of jobs 3-7, 9 and after a failure of job 1"
    assert in_words([Dependency("ok", tuple((n, n) for n in range(1, 20, 2)))]) == "after jobs 1, 3, 5, and 7 more"
    formatted = [0]

    class Counted(int):
        def __format__(self, spec: str) -> str:
            formatted[0] += 1
            return super().__format__(spec)

    in_words([Dependency("ok", tuple((Counted(n), Counted(n + 1)) for n in range(1, 100, 3)))])
    assert formatted[0] == 6, "only the ranges that are shown"
