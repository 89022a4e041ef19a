"""The daemon's log: words of others stay within their line, and repeated lines do not push other lines out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.builders import HandClock

from grassq.daemon.log_file import KIND_LINES_MAX, KINDS_MAX, LINE_CHARS_MAX, SPAN_MAX_S, SPAN_S, open_log

Lines = Callable[[], list[str]]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def log(tmp_path: Path, clock: HandClock) -> Iterator[logging.Logger]:
    """A logger that writes to a file as a daemon in the background does."""
    made, handler = logging.Logger("grassq.test"), open_log(tmp_path / "daemon.log", clock=clock.mono)
    made.addHandler(handler)
    yield made
    handler.close()


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return lambda: (tmp_path / "daemon.log").read_text().splitlines()


def test_words_of_a_worker_begin_no_line_and_control_no_terminal(log: logging.Logger, lines: Lines) -> None:
    log.error("log_not_copied error=%s", "gone\n2026-01-01 INFO ready\r\x1b]0;owned\x07\u202e")
    [line] = lines()
    assert r"error=gone\n2026-01-01 INFO ready\r\x1b]0;owned\x07\u202e" in line


def test_words_in_a_traceback_begin_no_line_of_the_log(log: logging.Logger, lines: Lines) -> None:
    try:
        raise ValueError("bad\n2026-01-01 INFO ready \x1b[2J")
    except ValueError:
        log.exception("message_failed")
    first, *rest = lines()
    assert "message_failed" in first and "\x1b" not in "".join(rest)
    assert len(rest) > 2 and all(line.startswith("  | ") for line in rest)


def test_a_long_line_is_cut(log: logging.Logger, lines: Lines) -> None:
    log.error("refused why=%s", "x" * 1_000_000)
    assert [len(line) < LINE_CHARS_MAX + 100 for line in lines()] == [True]


def test_repeated_lines_are_counted_and_other_lines_are_kept(
    log: logging.Logger, lines: Lines, clock: HandClock
) -> None:
    for job in range(10_000):
        log.info("late_report job=%s", job)
    log.error("something_else")
    assert [line.rsplit(" ", 1)[1] for line in lines()] == [
        *[f"job={job}" for job in range(KIND_LINES_MAX)],
        "something_else",
    ]
    clock.now += SPAN_S
    log.info("ready")
    *_, told, ready = lines()
    assert f"{10_000 - KIND_LINES_MAX} more lines" in told and "late_report job=%s" in told and "ready" in ready


def test_lines_that_go_on_coming_are_told_ever_less_often(log: logging.Logger, lines: Lines, clock: HandClock) -> None:
    for _ in range(24 * 3600):
        clock.now += 1
        log.info("late_report job=%s", 1)
    # One second apart, so a span of a minute has a few lines too many, and the longest has thousands.
    assert len(lines()) < 24 * 3600 / SPAN_MAX_S * (KIND_LINES_MAX + 2) + 10 * (KIND_LINES_MAX + 2)
    clock.now += 2 * SPAN_MAX_S
    log.info("late_report job=%s", 2)
    clock.now += SPAN_S
    log.info("late_report job=%s", 3)
    assert [line.rsplit(" ", 1)[1] for line in lines()[-2:]] == ["job=2", "job=3"], "after a pause it begins anew"


def test_the_count_is_written_when_the_daemon_ends(log: logging.Logger, lines: Lines) -> None:
    for _ in range(KIND_LINES_MAX + 7):
        log.info("late_report")
    for handler in log.handlers:
        handler.close()
    assert "7 more lines" in lines()[-1]


def test_lines_of_many_kinds_are_bounded_too(log: logging.Logger, lines: Lines) -> None:
    for number in range(3 * KINDS_MAX):
        log.info(f"kind {number}")
    assert len(lines()) == KINDS_MAX + KIND_LINES_MAX
