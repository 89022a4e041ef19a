"""Patterns of files to fetch."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.errors import BadInput
from grassq.files import globs
from grassq.files.patterns import Patterns


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"out.txt", b"out.txt"),
        (b"./out.txt", b"out.txt"),
        (b"models", b"models/deep/a.pt"),
        (b"models/", b"models/a.pt"),
        (b"models/*.pt", b"models/a.pt"),
        (b"**/*.log", b"a.log"),
        (b"**/*.log", b"deep/er/a.log"),
        (b"run*", b"run1/everything/inside"),
        (b".", b"any/thing"),
        (b"./", b".hidden"),
        (b"**", b"any"),
        (b"*", b".hidden"),
        (b"a[12]", b"a2"),
        (rb"a\*", b"a*"),
        (b"\xff*", b"\xff\xfe"),
        (b"a\nb", b"a\nb"),
    ],
)
def test_a_pattern_matches(pattern: bytes, path: bytes) -> None:
    assert Patterns((pattern,)).match(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"out.txt", b"deep/out.txt"),
        (b"*.pt", b"models/a.pt"),
        (b"models/*.pt", b"models/deep/a.pt"),
        (b"models", b"models2/a"),
        (b"a?c", b"a/c"),
        (rb"a\*", b"ab"),
        (b"a[2-1]", b"a2"),
    ],
)
def test_a_pattern_does_not_match(pattern: bytes, path: bytes) -> None:
    assert not Patterns((pattern,)).match(path)


@pytest.mark.parametrize("pattern", [b"/etc/passwd", b"../x", b"a/../../x", b"", b"a\0b", b"x" * 5000])
def test_a_pattern_that_leaves_is_refused(pattern: bytes) -> None:
    with pytest.raises(BadInput, match="pattern"):
        Patterns((pattern,))


def test_there_is_a_bound_on_patterns() -> None:
    with pytest.raises(BadInput, match="more than 200"):
        Patterns((b"a",) * 201)


@pytest.mark.parametrize(
    ("patterns", "starts"),
    [
        ((b"a/b/*.pt",), (b"a/b",)),
        ((b"a", b"a/b", b"ab"), (b"a", b"ab")),
        ((b"*.pt", b"a/b"), (b".",)),
        ((b"a/**",), (b"a",)),
    ],
)
def test_a_search_begins_as_deep_as_it_can(patterns: tuple[bytes, ...], starts: tuple[bytes, ...]) -> None:
    assert Patterns(patterns).starts == starts


globs_of_parts = st.lists(st.text("ab*?", min_size=1, max_size=5) | st.just("**"), min_size=1, max_size=4)
paths_of_parts = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=5)


@given(globs_of_parts, paths_of_parts)
def test_a_glob_means_what_a_plain_search_finds(glob: list[str], path: list[str]) -> None:
    found = globs.regex("/".join(glob).encode()).fullmatch("/".join(path).encode()) is not None
    assert found == plainly(tuple(glob), tuple(path))


def plainly(glob: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """A slow search that tries everything."""
    if not glob:
        return not path
    first, *rest = glob
    if first == "**":
        if not rest:
            return bool(path)
        return any(plainly(tuple(rest), path[skipped:]) for skipped in range(len(path) + 1))
    text = re.sub(r"\*+", ".*", first).replace("?", ".")
    return bool(path) and re.fullmatch(text, path[0]) is not None and plainly(tuple(rest), path[1:])


def test_many_stars_do_not_take_long() -> None:
    """The far side chooses the paths: an exponential search would stop the whole daemon."""
    pattern = Patterns((b"*a" * 60 + b"b", b"**/a/" * 60 + b"b"))
    assert not pattern.match(b"a" * 255)
    assert not pattern.match(b"/".join([b"a"] * 120))


def test_everything_wanted_lies_below_a_start() -> None:
    patterns = Patterns((b"a/*/c", b"d/e"))
    for path in (b"a/b/c", b"a/b/c/d", b"d/e", b"d/e/f"):
        assert patterns.match(path)
        assert any(path == start or path.startswith(start + b"/") for start in patterns.starts)
