"""The index of requests: the same answers as looking at every one, and few looks however many there are."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.core.planner.firstfit import build
from grassq.core.planner.firstfit.index import FEW, Index
from grassq.core.planner.firstfit.range_tree import CELLS_MAX, cells_each, leaf_bits

Amounts = tuple[int, ...]
MOST = 2**53


class Plain:
    """The same by looking at every point."""

    def __init__(self) -> None:
        self.points: dict[int, tuple[Amounts, int]] = {}

    def fitting(self, free: Sequence[int]) -> list[tuple[int, int]]:
        return sorted(
            (order, key)
            for key, (amounts, order) in self.points.items()
            if all(amount <= most for amount, most in zip(amounts, free, strict=True))
        )


def first(index: Index, free: Sequence[int]) -> int | None:
    """Return the key with the least order that fits."""
    return next((key for _, key in index.fitting(free)), None)


def check(index: Index, plain: Plain, free: Sequence[int]) -> None:
    """Both say the same."""
    expected = plain.fitting(free)
    assert first(index, free) == (expected[0][1] if expected else None)
    assert list(index.fitting(free)) == expected
    assert len(index) == len(plain.points)


def play(dims: int, most: int, keys: int, loaded: int, turns: int, chance: random.Random) -> None:
    """Put, remove and change points at random, and compare again and again."""
    index, plain, orders = Index(dims), Plain(), iter(chance.sample(range(-(10**9), 10**9), loaded + turns))

    def amounts() -> Amounts:
        return tuple(chance.randrange(most + 1) for _ in range(dims))

    shapes = [amounts() for _ in range(keys)]
    plain.points = {key: (shapes[key], next(orders)) for key in chance.sample(range(keys), min(loaded, keys))}
    index.load((key, shape, order) for key, (shape, order) in plain.points.items())
    for _ in range(turns):
        key = chance.randrange(keys)
        move = chance.random()
        if move < 0.5:
            if move < 0.03:
                shapes[key] = amounts()
            plain.points[key] = shapes[key], next(orders)
            index.put(key, *plain.points[key])
        elif key in plain.points:
            index.remove(key)
            del plain.points[key]
        if move > 0.93:
            check(index, plain, [chance.randrange(-1, most + 2) for _ in range(dims)])
    check(index, plain, [most] * dims)


@settings(deadline=None, max_examples=60)
@given(
    dims=st.integers(0, 5),
    most=st.sampled_from([0, 2, 30, MOST]),
    keys=st.sampled_from([5, FEW, FEW + 1, 150, 700]),
    loaded=st.integers(0, 700),
    seed=st.integers(0, 2**32),
)
def test_the_index_says_what_looking_at_every_point_says(
    dims: int, most: int, keys: int, loaded: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "CHUNK", 64)  # joins in many steps, so that changes fall in the midst of them
        play(dims, most, keys, loaded, 500, random.Random(seed))


points_of_two = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60)


@settings(deadline=None, max_examples=100)
@given(points_of_two, st.integers(-1, 5), st.integers(-1, 5), st.randoms(use_true_random=False))
def test_points_with_equal_amounts_are_told_apart_by_their_order(
    shapes: list[Amounts], first: int, second: int, chance: random.Random
) -> None:
    index, plain = Index(2), Plain()
    orders = chance.sample(range(-99, 99), len(shapes))
    plain.points = {key: (shape, orders[key]) for key, shape in enumerate(shapes)}
    for key, (shape, order) in plain.points.items():
        index.put(key, shape, order)
    check(index, plain, (first, second))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_an_index_grown_point_by_point_and_drained_again_is_right_throughout(
    dims: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CHUNK", 64)
    chance = random.Random(dims)
    index, plain = Index(dims), Plain()
    count = 1500
    for order, key in enumerate(chance.sample(range(count), count)):
        plain.points[key] = tuple(chance.randrange(1000) for _ in range(dims)), order
        index.put(key, *plain.points[key])
        if order % 100 == 0:
            check(index, plain, [chance.randrange(1000) for _ in range(dims)])
    check(index, plain, [500] * dims)
    while plain.points:
        if len(plain.points) % 100 == 0:
            check(index, plain, [chance.randrange(1000) for _ in range(dims)])
        found = first(index, [1000] * dims)
        assert found is not None
        index.remove(found)
        del plain.points[found]
    assert first(index, [MOST] * dims) is None
    assert len(index) == 0


def test_the_ends_of_the_numbers_are_points_as_others() -> None:
    for others in (0, 100):
        index = Index(2)
        index.load((key, (7, 7), key) for key in range(others))
        index.put(1000, (MOST, MOST), -(2**63))
        index.put(1001, (0, 0), 2**63 - 2)
        assert first(index, (MOST, MOST)) == 1000
        assert first(index, (0, 0)) == 1001
        assert first(index, (-1, 0)) is None


def test_a_point_of_no_amounts_always_fits() -> None:
    index = Index(0)
    index.load((key, (), -key) for key in range(100))
    assert first(index, ()) == 99
    assert [key for _, key in index.fitting(())] == list(range(99, -1, -1))


@pytest.mark.parametrize("count", [3, 300])
def test_what_is_no_point_is_refused(count: int) -> None:
    index = Index(1)
    index.load((key, (key,), key) for key in range(count))
    with pytest.raises(KeyError):
        index.remove(count)
    index.remove(0)
    with pytest.raises(KeyError):
        index.remove(0)
    with pytest.raises(ValueError, match="no point"):
        index.put(0, (1, 2), 0)
    with pytest.raises(ValueError, match="no point"):
        index.put(0, (1,), 2**63 - 1)
    with pytest.raises(ValueError, match="is not an order"):
        index.load([(0, (1,), 2**63 - 1)])


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1, 500])
def test_more_can_be_loaded_where_there_are_points(count: int) -> None:
    index, plain = Index(2), Plain()
    for part in range(4):
        points = [(part * count + at, (at % 7, part), -at * 4 - part) for at in range(count)]
        index.load(points)
        plain.points |= {key: (amounts, order) for key, amounts, order in points}
        check(index, plain, (3, 2))


def test_a_tree_has_no_more_cells_than_its_points_may() -> None:
    for dims in range(1, 9):
        for count in (10**3, 10**5, 10**6, 10**7):
            assert cells_each(max(count.bit_length() - leaf_bits(count, dims), 0), dims - 1) <= CELLS_MAX


# How many looks a decision takes. The numbers are counted, so they are the same on every machine.

SIZES = (500, 2_000, 8_000, 32_000)
QUESTIONS = 100
RANGE = 10**6

Maker = Callable[[int, int, random.Random], tuple[list[tuple[int, Amounts, int]], Iterator[Amounts]]]


def uniform(count: int, dims: int, chance: random.Random) -> tuple[list[tuple[int, Amounts, int]], Iterator[Amounts]]:
    """Points and orders of any value."""
    orders = chance.sample(range(count), count)
    shapes = [tuple(chance.randrange(RANGE) for _ in range(dims)) for _ in range(count)]
    points = list(zip(range(count), shapes, orders, strict=True))
    return points, (tuple(chance.randrange(RANGE) for _ in range(dims)) for _ in range(QUESTIONS))


def blocked(count: int, dims: int, chance: random.Random) -> tuple[list[tuple[int, Amounts, int]], Iterator[Amounts]]:
    """Half of the points fit, and all that do not come first."""
    points, _ = uniform(count, dims, chance)
    half = int(RANGE * 0.5 ** (1 / dims))
    asked = (tuple(half - chance.randrange(RANGE // 100) for _ in range(dims)) for _ in range(QUESTIONS))
    return [(key, shape, order + count * (max(shape) <= half)) for key, shape, order in points], asked


def antichain(count: int, dims: int, chance: random.Random) -> tuple[list[tuple[int, Amounts, int]], Iterator[Amounts]]:
    """No point is at most another one, and what is free is just below one of them."""
    points, _ = uniform(count, dims, chance)
    lying = [(*shape[:-1], dims * RANGE - sum(shape[:-1])) for _, shape, _ in points]
    asked = ((*shape[:-1], shape[-1] - 1) for shape in chance.sample(lying, QUESTIONS))
    return [(key, lying[key], order - max(lying[key]) * count) for key, _, order in points], asked


def looks(maker: Maker, count: int, dims: int) -> tuple[float, int]:
    """How many looks a decision took: the mean, and the most."""
    index = Index(dims)
    points, asked = maker(count, dims, random.Random(count))
    index.load(points)
    seen = []
    for free in asked:
        before = index.visited
        first(index, free)
        seen.append(index.visited - before)
    return sum(seen) / len(seen), max(seen)


def looks_allowed(size: int, dims: int, leaf: int) -> int:
    """The bound: one search, then a run of every length with a dimension less, and a leaf."""
    bits = size.bit_length()
    if dims == 1:
        return bits + 16 * math.ceil(bits / 4)
    return bits + (dims << leaf) + sum(8 + looks_allowed(1 << each, dims - 1, leaf) for each in range(leaf, bits))


@pytest.mark.parametrize("maker", [uniform, blocked, antichain])
@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_no_decision_takes_more_looks_than_the_bound(maker: Maker, dims: int) -> None:
    for count in SIZES[:: 2 if dims > 2 else 1]:
        # The point found is then located, from the top of its minima down.
        locating = 16 * math.ceil(math.log2(count) / 4)
        assert looks(maker, count, dims)[1] <= looks_allowed(count, dims, leaf_bits(count, dims)) + locating


@pytest.mark.parametrize("maker", [uniform, blocked, antichain])
@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_looks_grow_as_a_power_of_the_logarithm(maker: Maker, dims: int) -> None:
    few = looks(maker, SIZES[0], dims)[0]
    for count in SIZES[1 : 3 if dims > 2 else None]:
        growth = (math.log(count) / math.log(SIZES[0])) ** dims
        assert looks(maker, count, dims)[0] <= 1.15 * few * growth


def test_the_bound_itself_grows_at_most_fivefold_when_there_are_a_thousand_times_more() -> None:
    for dims in (1, 2):
        assert looks_allowed(10**6, dims, 5) <= 5 * looks_allowed(10**3, dims, 5)
