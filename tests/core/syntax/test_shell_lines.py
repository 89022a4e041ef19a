"""Which lines are commands, and which of them need a shell."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax import shell_lines
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", [b""]),
        (b"a\nb\n", [b"a", b"b", b""]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b", b""]),
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"a\rb\n", [b"a\rb", b""]),
    ],
)
def test_lines_end_in_either_way_and_the_last_need_not(text: bytes, expected: list[bytes]) -> None:
    assert shell_lines.split(text) == expected


@pytest.mark.parametrize("line", [b"", b"   ", b"\t", b"# a", b"  # a", b"#"])
def test_blank_lines_and_comments_hold_no_command(line: bytes) -> None:
    assert shell_lines.command(line) is None


def test_a_command_keeps_its_end() -> None:
    assert shell_lines.command(b"  echo a\\ ") == b"echo a\\ "
    assert shell_lines.command(b"echo # not a comment line") == b"echo # not a comment line"


@pytest.mark.parametrize(
    "line",
    [
        b"python train.py --lr=0.1 --out runs/1",
        b"/bin/dd if=/dev/zero of=x",
        b"a\tb",
        "ls größe".encode(),
        b"run --at 12:30,13:00 user@host +%s",
        b"ls \xff",
    ],
)
def test_plain_words_are_as_a_shell_would_split_them(line: bytes) -> None:
    expected = [word.encode("latin-1") for word in shlex.split(line.decode("latin-1"))]
    assert shell_lines.plain_words(line) == tuple(expected)


@pytest.mark.parametrize("text", ["--id {gpu}", "{gpu},{cpu}", "x{job.id}y {job.name} {job.attempt}"])
def test_placeholders_are_ours_not_the_shells(text: str) -> None:
    assert shell_lines.plain_words(f"run {text}".encode()) == (b"run", *text.encode().split())


@pytest.mark.parametrize("character", "\"'\\$`*?[]~#!&|;<>()^\n\r\0\x01\x7f")
def test_a_line_with_a_special_character_is_for_a_shell(character: str) -> None:
    assert shell_lines.plain_words(f"run a{character}b".encode()) is None


@pytest.mark.parametrize(
    "line", [b"run {a,b}", b"run {1..3}", b"run {", b"run }", b"run {{gpu}}", b"run {A}", b"run =ls"]
)
def test_braces_and_equals_that_a_shell_may_read_are_for_it(line: bytes) -> None:
    assert shell_lines.plain_words(line) is None


@pytest.mark.parametrize("word", [b"cd", b"echo", b"if", b"exec", b"time", b".", b"A=1", b"_x9=", b"-x", b"true", b":"])
def test_what_shells_do_themselves_is_no_program(word: bytes) -> None:
    assert not shell_lines.may_be_program(word)


@pytest.mark.parametrize("word", [b"python", b"/bin/echo", b"./cd", b"sleep", b"9=1", b"a-b=c"])
def test_other_first_words_may_be_programs(word: bytes) -> None:
    assert shell_lines.may_be_program(word)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"a\0b", "NUL byte"),
        (b"go on \\", "ends in a backslash"),
        (b"three \\\\\\", "ends in a backslash"),
        (b"x" * (shell_lines.LINE_BYTES_MAX + 1), "longer than 2,097,152 bytes"),
    ],
)
def test_a_line_that_can_be_no_command_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        shell_lines.check(line)


def test_an_even_number_of_backslashes_ends_a_command() -> None:
    shell_lines.check(b"echo \\\\")
    shell_lines.check(b"echo \\ ")


@given(st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=126), max_size=30))
def test_words_are_plain_only_if_a_shell_agrees(text: str) -> None:
    """What is started without a shell has the words that a shell would have given it."""
    words = shell_lines.plain_words(text.encode())
    if words is not None:
        assert words == tuple(word.encode() for word in shlex.split(text))
