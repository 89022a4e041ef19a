"""A search: what its words mean, which lines it makes, and in which order."""

from __future__ import annotations

import itertools
import string
from collections import Counter
from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.core.permutation import SMALL, order
from grassq.core.syntax import sweep
from grassq.core.syntax.sweep import Search, Typed
from grassq.errors import BadInput


def refuse(word: str) -> int:
    raise BadInput(f"unknown option {word}")


def read(*words: str) -> Typed:
    return sweep.read(words, refuse)


def lines(*words: str, seed: int | None = None) -> list[str]:
    """The lines of a search; without a seed in the order of the grid."""
    return list(read(*words).search().lines(seed))


def refusal(*words: str) -> str:
    with pytest.raises(BadInput) as caught:
        read(*words).search()
    return str(caught.value)


# The order.

seeds = st.integers(-(2**70), 2**70)


@given(count=st.integers(0, 3000), seed=seeds)
def test_an_order_has_every_number_once(count: int, seed: int) -> None:
    assert sorted(order(count, seed)) == list(range(count))


@pytest.mark.parametrize("count", [1, 2, 3, *(SMALL + n for n in (-1, 0, 1)), 16_383, 16_384, 16_385, 50_000])
def test_an_order_has_every_number_once_at_the_edges_of_its_table(count: int) -> None:
    assert sorted(order(count, 7)) == list(range(count))


@given(bits=st.integers(13, 300), seed=seeds)
@settings(max_examples=50)
def test_a_huge_order_begins_like_any_other(bits: int, seed: int) -> None:
    count = (1 << bits) + 1
    first = list(itertools.islice(order(count, seed), 200))
    assert len(set(first)) == 200
    assert all(0 <= number < count for number in first)


def test_the_seed_alone_decides_the_order() -> None:
    # Kept here as they are: who wrote a seed down gets the same lines from a later release.
    assert list(order(9, 1)) == [2, 1, 5, 8, 6, 3, 7, 0, 4]
    assert list(itertools.islice(order(10**7, 1), 3)) == [6660919, 7030411, 3058406]
    different = {tuple(order(1000, seed)) for seed in (*range(-5, 5), 2**64, 2**64 + 1, 2**128, -(2**64))}
    assert len(different) == 14


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_of_few_numbers_every_order_is_as_frequent_as_any_other(count: int) -> None:
    tries = 100 * factorial(count)
    seen = Counter(tuple(order(count, seed)) for seed in range(tries))
    assert len(seen) == factorial(count)
    # Poisson with a mean of 100: six standard deviations to either side.
    assert all(40 <= times <= 160 for times in seen.values())


@pytest.mark.parametrize("count", [9, 100, SMALL + 1, 10**6])
def test_each_of_the_first_places_is_spread_over_all_numbers(count: int) -> None:
    tries, parts = 2000, min(count, 20)
    first = [list(itertools.islice(order(count, seed), 3)) for seed in range(tries)]
    for place in range(3):
        seen = Counter(numbers[place] * parts // count for numbers in first)
        mean = tries / parts
        chi = sum((seen[part] - mean) ** 2 / mean for part in range(parts)) / (parts - 1)
        assert chi < 3, (count, place, chi)


def test_neighbours_of_an_order_are_no_neighbours_of_the_grid() -> None:
    numbers = list(itertools.islice(order(10**7, 3), 20_000))
    steps = Counter((after - before) % 10**7 // 10**6 for before, after in itertools.pairwise(numbers))
    assert min(steps.values()) > 1800 and max(steps.values()) < 2200


def test_any_place_of_ten_million_is_there_without_a_list() -> None:
    # Made one by one: the first is there at once, and what was given is not kept.
    numbers = order(10**12, 1)
    assert next(numbers) != next(numbers)


# The lines.


def test_the_grid_has_its_last_parameter_fastest() -> None:
    made = lines("run {lr} {bs}", "-p", "lr", "0.1", "0.2", "-p", "bs", "1", "2", "3")
    assert made == [f"run {lr} {bs}" for lr in ("0.1", "0.2") for bs in (1, 2, 3)]


names = st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=3), unique=True, max_size=5)
values = st.lists(st.text("ab -{}$\\%\u00e9", max_size=4), min_size=1, max_size=6)


@given(data=st.data(), names=names, seed=seeds)
def test_the_shuffled_lines_are_those_of_the_grid(data: st.DataObject, names: list[str], seed: int) -> None:
    parameters = {name: data.draw(values) for name in names}
    pieces = [*(f"{{{name}}}" for name in names), "{{", "}}", "%s", " x", "\\"]
    command = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8)))
    expected = [
        command.format(**dict(zip(names, point, strict=True))) for point in itertools.product(*parameters.values())
    ]
    search = Search(command, parameters)
    assert list(search.lines(None)) == expected
    assert Counter(search.lines(seed)) == Counter(expected)
    assert search.points == search.count == len(expected)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), samples=st.integers(0, 7000), seed=seeds)
@settings(max_examples=50)
def test_samples_are_the_first_of_the_order_and_none_comes_twice(sizes: list[int], samples: int, seed: int) -> None:
    parameters = {f"p{place}": [str(value) for value in range(size)] for place, size in enumerate(sizes)}
    command = " ".join(f"{{{name}}}" for name in parameters)
    whole = list(Search(command, parameters).lines(seed))
    search = Search(command, parameters, samples)
    some = list(search.lines(seed))
    assert (search.count, search.points) == (len(some), len(whole))
    assert some == whole[:samples] and len(set(some)) == len(some) == min(samples, len(whole))


def test_each_parameter_keeps_its_own_values_in_a_grid_of_many_points() -> None:
    parameters = {name: [f"{name}{value}" for value in range(12)] for name in "abcd"}
    search = Search("{a} {b} {c} {d}", parameters)
    assert set(search.lines(5)) == set(search.lines(None))


def test_a_grid_beyond_all_bounds_begins_at_once() -> None:
    digits = [str(digit) for digit in range(10)]
    parameters = {f"p{place}": digits for place in range(50)}
    search = Search("-".join(f"{{{name}}}" for name in parameters), parameters)
    assert search.points == 10**50
    first = list(itertools.islice(search.lines(4), 1000))
    assert len(set(first)) == 1000
    assert next(search.lines(None)) == "-".join("0" * 50)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("{{x}} {x}", "{x} -1"),
        ("${{HOME}}/{x}", "${HOME}/-1"),
        ("{{{x}}}", "{-1}"),
        ("awk '{{print $1}}' {x}", "awk '{print $1}' -1"),
        ("{x}{x}", "-1-1"),
        ("{x:>5}|{x:0>4}|{x!r}", "   -1|00-1|'-1'"),
        ("100% {x}", "100% -1"),
    ],
)
def test_braces_and_forms_are_those_of_python(command: str, line: str) -> None:
    assert lines(command, "-p", "x", "-1") == [line]


def test_a_name_is_whatever_was_given_as_one() -> None:
    assert lines("{learning-rate} {a.b} {c:d}", "-p", "learning-rate", "1", "-p", "a.b", "2", "-p", "c:d", "3") == [
        "1 2 3"
    ]


def test_without_parameters_there_is_one_line() -> None:
    assert lines("make all") == ["make all"]


# The words.


def test_values_may_begin_with_a_minus_sign_and_end_at_an_option() -> None:
    typed = read("-p", "lr", "-0.1", "-1e-3", "--seed", "-3", "--n-samples=2", "-p", "x", "-", "--", "run {lr} {x}")
    assert typed.parameters == {"lr": ["-0.1", "-1e-3"], "x": ["-"]}
    assert (typed.seed, typed.samples, typed.commands, typed.mode) == (-3, 2, ["run {lr} {x}"], "shuffled_grid")


def test_what_is_none_of_ours_is_handed_on_with_its_words() -> None:
    words = ["run {x}", "--gpu", "0.5", "-p", "x", "1", "-q", "--name=n", "--env", "A=1"]
    typed = sweep.read(words, lambda word: {"--gpu": 2, "--env": 2}.get(word, 1), ("-q",))
    assert typed.rest == ["--gpu", "0.5", "-q", "--name=n", "--env", "A=1"]
    assert (typed.commands, typed.parameters) == (["run {x}"], {"x": ["1"]})


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_asked_for_anywhere(word: str) -> None:
    assert read("-p", "x", "1", word, "--nonsense").help
    assert not read("--", word).help


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{x}"], "{x} has no values: add -p x VALUE..., or write {{x}} for the text {x}"),
        (["a ${HOME}"], "{HOME} has no values: add -p HOME VALUE..., or write ${{HOME}} for the text ${HOME}"),
        (["a {}"], "{} names no parameter; write {{}} for the text {}"),
        (["a {x} }", "-p", "x", "1"], "a single } in the command, at '}': write }} for the text"),
        (["a { {x}", "-p", "x", "1"], "a single { in the command, at '{ {x}': write {{ for the text"),
        (["a {", "-p", "x", "1"], "a single { in the command, at '{': write {{ for the text"),
        (["{x!z}", "-p", "x", "1"], "{x!z} is not a format of a value: Unknown conversion specifier z"),
        (["{x:99999}", "-p", "x", "1"], "{x:99999} makes a value wider than 9999 characters"),
        (["{x}", "-p", "x"], "parameter 'x' has no values: -p x VALUE..."),
        (["{x}", "-p"], "-p needs the name of a parameter and its values: -p NAME VALUE..."),
        (["{x}", "--n-samples", "-1"], "--n-samples needs a whole number, 0 or more, not '-1'"),
        (["{x}", "--n-samples", "1.5"], "--n-samples needs a whole number, 0 or more, not '1.5'"),
        (["{x}", "--n-samples"], "--n-samples needs a whole number, 0 or more, not ''"),
        (["{x}", "--seed=9" + "9" * 5000], "--seed needs a whole number, not '" + "9" * 57 + "...'"),
        (["{x}", "--sampling-mode", "random"], "--sampling-mode is shuffled_grid or grid, not 'random'"),
        (["a", "b"], 'put the whole command in quotes, as one word: "a b ..."'),
        (["--seed", "1"], "the command is missing: put it in quotes, with {NAME} for each parameter"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(words: list[str], sentence: str) -> None:
    assert refusal(*words) == sentence


def test_a_command_taken_for_a_value_is_missed_with_a_hint() -> None:
    assert refusal("-p", "x", "1", "run {x}").endswith("before -p or behind --")


def test_what_is_probably_not_meant_is_noted_and_done() -> None:
    search = read("run {x}", "-p", "x", "1", "-p", "x", "2", "-p", "y", "a", "b", "--n-samples", "5").search()
    assert search.notes == [
        "parameter 'x' is given twice; the last one counts",
        "no {y} is in the command, so every line comes 2 times",
        "there are only 2 combinations; --n-samples 5 takes all of them",
    ]
    assert list(search.lines(None)) == ["run 2", "run 2"]


@given(st.text("{}$!:x9 %", max_size=12))
def test_any_command_is_either_filled_in_or_refused(command: str) -> None:
    try:
        search = Search(command, {"x": ["v"]})
    except BadInput as error:
        assert "\n" not in str(error)
    else:
        assert len(list(search.lines(1))) == 1


@given(st.lists(st.sampled_from(["-p", "--", "--seed", "--n-samples", "-h", "x", "1", "-1", "--parameter", "-", ""])))
def test_any_words_are_either_a_search_or_refused(words: list[str]) -> None:
    try:
        typed = sweep.read(words, lambda word: 1)
        if not typed.help:
            assert len(list(typed.search().lines(1))) == typed.search().count
    except BadInput as error:
        assert "\n" not in str(error)
