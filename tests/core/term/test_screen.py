"""The reader of terminal output: what is shown, and that neither cuts of the bytes nor a saved state change it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.term.pyte_screen import our_lines, pyte_lines

from grassq.core.term.line import Line
from grassq.core.term.row import COLUMNS_MAX, MARKS_MAX
from grassq.core.term.scan import scan
from grassq.core.term.screen import WINDOW, Screen, fold
from grassq.core.term.sequences import STRING_MAX
from grassq.core.term.style import parse_words, words


def texts(data: bytes) -> list[str]:
    return [line.text for line in fold(data)]


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\na", ["", "", "a"]),
        (b"50%\r100%", ["100%"]),
        (b"100%\r50%", ["50%%"]),
        (b"100%\r\x1b[K50%", ["50%"]),
        (b"100%\x1b[2K\r50%", ["50%"]),
        (b"abc\b\bX", ["aXc"]),
        (b"a\tb\tc", ["a\tb\tc"]),
        (b"a\tb\rxyz", ["xyz     b"]),
        (b"one\ntwo\x1b[A\rONE\x1b[B!", ["ONE", "two!"]),
        (b"one\ntwo\n\x1b[2AONE", ["ONE", "two"]),
        (b"a\x1b[3;5Hb", ["a", "", "    b"]),
        (b"a\x1b[5Gb", ["a   b"]),
        (b"a\x1b[2Cb", ["a  b"]),
        (b"ab\x1b7cd\x1b8X", ["abXd"]),
        (b"one\ntwo\n\x1b[H\x1b[2Jthree", ["one", "two", "three"]),
        (b"one\ntwo\n\x1b[H\x1b[Jthree", ["three"]),
        (b"abcdef\r\x1b[2Xx", ["x cdef"]),
        (b"one\x1bctwo", ["one", "two"]),
        (b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["ablink"]),
        (b"a\x1bPq#0;2;0\x1b\\b\x1b_apc\x1b\\c", ["abc"]),
        (b"a\x1b]never ends\nb", ["a", "b"]),
        ("a\x9b2Kb\x9d0;t\x9cc\x85d".encode(), [" bcd"]),
        (b"a\x1b[?25lb\x1b[>4;2mc\x1b(Bd\x1b=e", ["abcde"]),
        (b"a\x1b[31\xc3\xa4b", ["aäb"]),
        (b"a\x00\x07\x7f\x0fb", ["ab"]),
        (b"a\xff\xfeb\xe2\x82", ["a\ufffd\ufffdb\ufffd"]),
        ("a\u202eb\u2066c\u200fd\u2028e".encode(), ["a\\u202eb\\u2066c\\u200fd\\u2028e"]),
        ("日本\r語".encode(), ["語本"]),
        ("日本\rx".encode(), ["x 本"]),
        ("日本\x1b[2Gx".encode(), [" x本"]),
        ("e\u0301\u0302x\ra".encode(), ["ax"]),
        ("👩\u200d💻!".encode(), ["👩\u200d💻!"]),
        (b"a\x0bb\x0cc", ["a", "b", "c"]),
    ],
)
def test_people_see_what_a_terminal_shows(written: bytes, seen: list[str]) -> None:
    assert texts(written) == seen


@pytest.mark.parametrize(
    ("sequence", "look"),
    [
        (b"1;31", "bold fg1"),
        (b"2;3;4;7;9", "dim italic underline reverse strike"),
        (b"97;104", "fg15 bg12"),
        (b"38;5;202;48;2;1;2;3", "fg202 bg#010203"),
        (b"38:5:9", "fg9"),
        (b"38:2::255:0:16", "fg#ff0010"),
        (b"38:2:255:0:16", "fg#ff0010"),
        (b"4:3", "underline"),
        (b"4;4:0", ""),
        (b"1;22;31;39", ""),
        (b"38;5;999;1", "bold"),
        (b"38", ""),
        (b"1;", ""),
        (b"5;8;1", "bold"),
    ],
)
def test_styles_are_read(sequence: bytes, look: str) -> None:
    [line] = fold(b"\x1b[" + sequence + b"mx")
    assert words(line.spans[0].style) == look
    assert parse_words(look) == line.spans[0].style
    again = fold(line.coloured.encode())[0]
    assert again.spans == line.spans


def test_a_bar_counts_its_updates_and_keeps_its_bytes() -> None:
    data = b"begin\n" + b"".join(b"\r%3d%%" % at for at in range(101)) + b"\nend\n"
    bar = fold(data)[1]
    assert (bar.number, bar.text, bar.updates) == (2, "100%", 100)
    assert data[bar.begin : bar.end].startswith(b"\r  0%") and data[bar.begin : bar.end].endswith(b"100%\n")


def test_a_long_line_is_cut_and_says_how_much_is_left_out() -> None:
    [first, second] = fold(b"x" * (COLUMNS_MAX + 7) + b"\n" + "é".encode() * 20_000)
    assert (len(first.text), first.cut) == (COLUMNS_MAX, 7)
    assert (len(second.text), second.cut) == (COLUMNS_MAX, 10_000)


def test_lines_that_leave_the_window_no_longer_change() -> None:
    data = b"".join(b"%d\n" % at for at in range(WINDOW + 50)) + b"\x1b[999Atop"
    lines = fold(data)
    assert lines[51].text == "top" and [line.text for line in lines[:51]] == [str(at) for at in range(51)]
    assert [line.number for line in lines] == list(range(1, WINDOW + 51))


def test_a_string_without_an_end_hides_a_bounded_part_of_a_log() -> None:
    [line] = fold(b"a\x1b]" + b"x" * (STRING_MAX + 5))
    assert line.text == "axxxxx"


def test_the_state_of_a_line_that_was_coloured_and_erased_is_restored() -> None:
    screen = Screen()
    screen.feed(b"a\x1b[31mb\x1b[2K")
    assert Screen.restore(screen.state()).state() == screen.state()


def test_marks_on_one_character_are_bounded() -> None:
    [line] = fold(("e" + "\u0301" * 100_000).encode())
    assert len(line.text) == 1 + MARKS_MAX


PIECES = [
    b"\n", b"\n", b"\r", b"\b", b"\t", b"abc", b"x", b" ", b"  ", "é".encode(), "─█".encode(),
    b"\x1b[A", b"\x1b[2A", b"\x1b[B", b"\x1b[3C", b"\x1b[2D", b"\x1b[7G", b"\x1b[3;4H", b"\x1b[H", b"\x1b[150B",
    b"\x1b[2E", b"\x1b[F", b"\x1b[4d", b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[1J", b"\x1b[3X",
    b"\x1b[31m", b"\x1b[1;44m", b"\x1b[0m", b"\x1b[m", b"\x1b[38;5;100m", b"\x1b[48;2;9;8;7m", b"\x1b[3;4;7;9m",
    b"\x1b[22;23;24;27;29m", b"\x1b[95m", b"\x1b[39;49m", b"\x1b]0;t\x07", b"\x1b]2;t\x1b\\",
]  # fmt: skip
#: What pyte shows in another way, or not at all.
ODD = [
    b"\x1b[2J", b"\x1bc", b"\x1b7", b"\x1b8", b"\x1bM", b"\x1bD", b"\x1b", b"[", b"\x9b", b"\xc2", b"\xc2\x9b",
    b"\xe2\x82", "日".encode(), "e\u0301".encode(), "\u202e".encode(), b"\x00", b"\x0c", b"\x1bP", b"\x1b\\", b"\x1b[1",
    b";;;", b"m", b"\x1b[38:2:", b"\xff", "👩\u200d💻".encode(), b"\n" * 60, b"y" * 6000,
]  # fmt: skip
real = st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)
wild = st.lists(st.one_of(st.sampled_from(PIECES + ODD), st.binary(max_size=6)), max_size=40).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(real)
def test_our_screen_shows_what_pyte_shows(data: bytes) -> None:
    assert our_lines(fold(data)) == pyte_lines(data)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([b"\n", "日本".encode(), b"ab", "e\u0301".encode(), b"\t", b"\x1b[31m"]), max_size=30))
def test_wide_characters_and_marks_are_where_pyte_has_them(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert our_lines(fold(data)) == pyte_lines(data)


def read(screen: Screen, data: bytes, cuts: list[int]) -> list[Line]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    final = [line for first, last in pairwise(places) for line in screen.feed(data[first:last])]
    return final + screen.finish()


@settings(max_examples=100, deadline=None)
@given(wild, st.lists(st.integers(0, 300), max_size=8))
def test_any_cut_of_the_bytes_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    assert read(Screen(), data, cuts) == fold(data)
    assert read(Screen(), data, list(range(min(len(data), 500)))) == fold(data)


@settings(max_examples=100, deadline=None)
@given(wild, st.integers(0, 300), st.booleans())
def test_a_restored_screen_goes_on_as_if_nothing_had_happened(data: bytes, cut: int, again: bool) -> None:
    screen = Screen()
    before = screen.feed(data[:cut])
    if again:
        offset, state = screen.checkpoint()
        other = Screen.restore(state)
        assert other.feed(data[offset:cut]) == []
    else:
        other = Screen.restore(screen.state())
    assert (other.lines(), other.state()) == (screen.lines(), screen.state())
    assert before + read(other, data[cut:], []) == fold(data)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            wild,
            st.just(b"plain line\n" * 250),
            st.just(b"crlf\r\n" * 250),
            st.just(b"\x1b[31mred\x1b[0;1m\rx\x1b[K\n\x1b[4mq\x1b[2Dz\n" * 150),
        ),
        max_size=4,
    )
)
def test_skimming_counts_the_same_lines(parts: list[bytes]) -> None:
    skimmed, fed = Screen(), Screen()
    for part in parts:
        assert skimmed.skim(part) == len(fed.feed(part))
        assert skimmed.lines() == fed.lines()
    assert skimmed.state() == fed.state()


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.tuples(wild, st.integers(0, 400), st.integers(0, 255))))
def test_a_damaged_state_is_refused_or_harmless(damaged: bytes | tuple[bytes, int, int]) -> None:
    if isinstance(damaged, bytes):
        state = damaged
    else:
        screen = Screen()
        screen.feed(damaged[0])
        good = bytearray(screen.state())
        good[damaged[1] % len(good)] = damaged[2]
        state = bytes(good)
    try:
        screen = Screen.restore(state)
    except ValueError:
        return
    screen.feed(b"more\x1b[2Atext\x1b[K\n" * 150)
    screen.finish()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            wild,
            st.just("plain\u202e line\n".encode() * 500),
            st.just(b"crlf\t\r\n" * 600),
            st.just(b"\x1b[31mred\x1b[0;1mx\x1b[K\n\x1b[mq\n" * 300),
        ),
        max_size=4,
    )
)
def test_scanning_gives_the_same_texts_in_blocks(parts: list[bytes]) -> None:
    scanned, fed = Screen(), Screen()
    for part in parts:
        blocks, lines = scan(scanned, part), fed.feed(part)
        texts = [(block.number + at, text) for block in blocks for at, text in enumerate(block.text.split("\n"))]
        assert texts == [(line.number, line.text) for line in lines]
    assert scanned.state() == fed.state()
