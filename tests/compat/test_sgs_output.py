from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grassq.compat.simple_gpu_scheduler.output import HELD_MAX, PENDING_MAX, PIPE_TAKES, Output


class Page:
    """An output whose reader is a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
        self.output = Output(self.descriptor)

    def text(self) -> bytes:
        self.output.flush()
        return self.path.read_bytes()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = Page(tmp_path / "page")
    yield page
    os.close(page.descriptor)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for each in (reading, writing):
        try:
            os.close(each)
        except OSError:
            continue


def test_lines_of_two_commands_are_never_mixed(page: Page) -> None:
    page.output.write(1, b"one ")
    page.output.write(2, b"two ")
    page.output.write(1, b"and one\nmore ")
    page.output.write(2, b"and two\n")
    assert page.text() == b"one and one\ntwo and two\n"
    page.output.write(1, b"of it\n")
    assert page.text() == b"one and one\ntwo and two\nmore of it\n"


def test_a_last_line_without_end_is_passed_as_it_is(page: Page) -> None:
    page.output.write(1, b"a\nb")
    page.output.end(1)
    assert page.text() == b"a\nb"


def test_and_gets_one_when_something_follows(page: Page) -> None:
    page.output.write(1, b"b")
    page.output.end(1)
    page.output.line(b"Processing")
    page.output.write(2, b"c\n")
    assert page.text() == b"b\nProcessing\nc\n"


def test_what_another_attempt_of_the_same_job_writes_is_another_line(page: Page) -> None:
    page.output.write(1, b"b")
    page.output.end(1)
    page.output.write(1, b"c\n")
    assert page.text() == b"b\nc\n"


def test_a_line_that_is_very_long_is_passed_in_pieces_that_belong_together(page: Page) -> None:
    page.output.write(1, b"x" * (HELD_MAX + 1))
    page.output.write(1, b"y" * (HELD_MAX + 1))
    page.output.write(1, b"\n")
    assert page.text() == b"x" * (HELD_MAX + 1) + b"y" * (HELD_MAX + 1) + b"\n"


def test_unless_somebody_else_writes_in_between(page: Page) -> None:
    page.output.write(1, b"x" * (HELD_MAX + 1))
    page.output.write(2, b"a\n")
    page.output.write(1, b"y\n")
    assert page.text() == b"x" * (HELD_MAX + 1) + b"\na\ny\n"


def test_a_slow_reader_makes_nobody_wait_and_gets_everything(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = Output(writing)
    sent = b"".join(b"%d\n" % number for number in range(300_000))
    for start in range(0, len(sent), 100_000):
        output.write(1, sent[start : start + 100_000])
    output.flush()
    assert output.is_waiting and not output.has_room and len(sent) > PENDING_MAX
    got = b""
    while output.is_waiting:
        got += os.read(reading, PIPE_TAKES)
        output.flush()
    os.close(writing)
    while part := os.read(reading, 1 << 20):
        got += part
    assert got == sent


def test_a_reader_that_is_gone_is_noticed_and_nothing_more_is_kept(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = Output(writing)
    os.close(reading)
    output.line(b"a")
    output.flush()
    assert output.trouble == "Broken pipe"
    output.write(1, b"b\n")
    assert not output.is_waiting and output.has_room
