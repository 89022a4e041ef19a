"""A log is followed by its tail: what is too fast is skipped and counted, and never queued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.top.scripted import Answers, Ended, Response, job

from grassq.cli.top.feeds.log_tail import BURST_BYTES, KEPT_LINES, LogFollower, LogNews


class Loud(Answers):
    """A daemon whose job writes much more than can be read between two requests; at last it ends."""

    def __init__(self, rounds: int) -> None:
        super().__init__([job(1, "running")])
        self.rounds, self.size, self.sent = rounds, 0, 0

    def stream(self, path: str, asked: list[tuple[str, object]], timeout_s: float | None) -> tuple[Any, Any, Any]:
        self.rounds -= 1
        self.size += 50_000_000
        lines = int(str(dict(asked)["tail"]))
        begin = self.size - 100 * lines
        return Response({"grass-offset": str(begin), "grass-attempt": "1"}), self._parts(lines), Ended(None)

    def _parts(self, lines: int) -> Iterator[bytes]:
        yield b"".join(b"%098d\n" % at for at in range(lines))
        while self.rounds > 0:
            self.sent += 1 << 16
            yield (b"x" * 99 + b"\n") * 655


def followed(daemon: Answers) -> list[LogNews]:
    """Everything that is told about the log of job 1 until it ends."""
    told: list[LogNews] = []
    failures: list[Exception] = []
    tail = LogFollower(daemon, 1, "log", told.append, failures.append)  # type: ignore[arg-type]
    tail.run()
    assert not failures
    return told


def test_a_loud_log_is_skipped_to_its_end_and_reads_stay_bounded() -> None:
    daemon = Loud(rounds=4)
    told = followed(daemon)
    assert told[-1].is_end
    skipped = [news.skipped for news in told if news.skipped]
    assert len(skipped) >= 2 and all(each > 40_000_000 for each in skipped)
    assert daemon.sent <= 5 * (BURST_BYTES + (1 << 17))


def test_a_short_log_is_told_whole() -> None:
    daemon = Answers([job(1, "succeeded")])
    daemon.logs[1] = b"one\ntwo\rTWO\nthree"
    lines: list[str] = []
    for news in followed(daemon):
        lines = [line.text for line in (*news.lines, *news.open_lines)]
    assert lines == ["one", "TWO", "three"]


def test_one_endless_line_is_shown_at_its_end() -> None:
    daemon = Answers([job(1, "succeeded")])
    daemon.logs[1] = b"A" * (3 * BURST_BYTES)
    told = followed(daemon)
    assert told[-1].is_end and sum(len(news.lines) for news in told) <= KEPT_LINES


def test_the_lines_after_a_skip_fill_a_screen() -> None:
    told = followed(Loud(rounds=5))
    after = [news for news in told if news.skipped]
    assert after and all(len(news.lines) + len(news.open_lines) >= 100 for news in after)
