"""A line is a sorted set of places, however it came about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from grassq.core.model import ID_MAX, id_in, order_of, priority_in
from grassq.core.planner.sorted_orders import PART_MAX, SortedOrders


class Lines(RuleBasedStateMachine):
    """A line beside a sorted list."""

    @initialize(start=st.sets(st.integers(-1000, 3000).map(lambda n: n * 3), max_size=2000))
    def begin(self, start: set[int]) -> None:
        self.plain = sorted(start)
        self.line = SortedOrders(self.plain)

    @rule(place=st.integers(-4000, 10_000))
    def add(self, place: int) -> None:
        if place not in self.plain:
            self.line.add(place)
            self.plain = sorted([*self.plain, place])

    @rule(at=st.integers(0, 10_000))
    def remove(self, at: int) -> None:
        if self.plain:
            self.line.remove(self.plain.pop(at % len(self.plain)))

    @rule(place=st.integers(-4000, 10_000))
    def remove_nobody(self, place: int) -> None:
        if place not in self.plain:
            with pytest.raises(ValueError, match="not queued"):
                self.line.remove(place)

    @rule(place=st.integers(-4000, 10_000))
    def ask(self, place: int) -> None:
        assert (place in self.line) == (place in self.plain)
        assert self.line.before(place) == sum(other < place for other in self.plain)
        assert self.line.after(place) == next((other for other in self.plain if other > place), None)

    @invariant()
    def they_are_the_same(self) -> None:
        assert [*self.line] == self.plain and len(self.line) == len(self.plain)
        assert self.line.upto(3) == self.plain[:3]
        if self.plain:
            assert (self.line.first, self.line.last) == (self.plain[0], self.plain[-1])


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_long_line_is_emptied_from_both_ends_and_filled_again() -> None:
    line = SortedOrders(range(3 * PART_MAX))
    for place in range(PART_MAX):
        line.remove(place)
        line.remove(3 * PART_MAX - 1 - place)
    assert [*line] == [*range(PART_MAX, 2 * PART_MAX)]
    for place in range(PART_MAX, 2 * PART_MAX):
        line.remove(place)
    assert len(line) == 0 and line.upto(1) == [] and line.after(0) is None
    for place in reversed(range(2 * PART_MAX)):
        line.add(place)
    assert [*line] == [*range(2 * PART_MAX)]


@given(
    st.lists(st.tuples(st.integers(-1_000_000, 1_000_000), st.integers(1, ID_MAX)), min_size=2, max_size=2, unique=True)
)
def test_a_place_in_line_is_the_priority_then_the_id_in_one_number_of_64_bits(two: list[tuple[int, int]]) -> None:
    (priority, id_), (other_priority, other_id) = two
    order = order_of(priority, id_)
    assert (priority_in(order), id_in(order)) == (priority, id_) and -(2**63) <= order < 2**63
    assert (order < order_of(other_priority, other_id)) == ((-priority, id_) < (-other_priority, other_id))
