"""`grass history` as a table, as comma-separated values, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.cli.fake import FakeDaemon, document

from grassq.cli import render
from grassq.cli.main import main

GROUP: dict[str, Any] = {
    "group": "2026-01-31", "jobs": 3, "runs": 4, "succeeded": 1, "failed": 1, "cancelled": 1, "success_rate": 0.5,
    "run_hours": 2.5, "hours": {"cpu": 1234.5, "gpu": 0.25, "mem": 7.0}, "wait_median_s": 75.0, "wait_p90_s": None,
}  # fmt: skip
ANSWER = {"groups": [GROUP], "total": {**GROUP, "group": None}}


def run(home: Path, *words: str, answer: Any = ANSWER) -> int:
    with FakeDaemon(home, lambda request: document(answer)):
        return main(["history", *words])


def test_the_table_has_hours_waits_and_a_total(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(home) == 0
    header, row, total, also, footer = capfd.readouterr().out.splitlines()
    assert " ".join(header.split()) == "DAY JOBS RUNS OK FAILED GPU H CPU H WAIT MEDIAN WAIT P90"
    assert row.split() == ["2026-01-31", "3", "4", "50%", "1", "0.25", "1,234", "1m15s", "-"]
    assert total.split()[1:] == row.split()[1:] and also == "also: mem 7.0 h"
    assert "grass clean" in footer


@pytest.mark.parametrize(("is_utf8", "bars"), [(True, ["█" * 12, "██████░░░░░░"]), (False, ["#" * 12, "######......"])])
def test_bars_on_a_wide_terminal_are_drawn_with_what_it_can_show(
    is_utf8: bool, bars: list[str], home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: fd == 1)
    monkeypatch.setattr(render, "width", lambda *_: 120)
    monkeypatch.setattr(render, "is_utf8", lambda fd=1: is_utf8)
    monkeypatch.setenv("NO_COLOR", "1")
    half = {**GROUP, "run_hours": 1.25, "success_rate": 0.996}
    assert run(home, answer={"groups": [GROUP, half], "total": GROUP}) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[1:3]]
    assert [row[-1] for row in rows] == bars and [row[3] for row in rows] == ["50%", "99%"]


def test_comma_separated_values_have_every_resource(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(home, "--csv") == 0
    head, row = capfd.readouterr().out.splitlines()
    assert head == (
        "day,jobs,runs,succeeded,failed,cancelled,success_rate,run_hours,"
        "cpu_hours,gpu_hours,mem_hours,wait_median_s,wait_p90_s"
    )
    assert row == "2026-01-31,3,4,1,1,1,0.5,2.5,1234.5,0.25,7.0,75.0,"


def test_a_history_without_jobs_says_so(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(home, answer={"groups": [], "total": {}}) == 0
    assert "no job ended (--since 30d)" in capfd.readouterr().out


@pytest.mark.parametrize(("typed", "least_s", "most_s"), [("2d", 172_800, 172_800), ("00:00", 0, 90_000)])
def test_since_is_a_duration_or_a_time(typed: str, least_s: int, most_s: int, home: Path) -> None:
    with FakeDaemon(home, lambda request: document(ANSWER)) as daemon:
        assert main(["history", "--since", typed]) == 0
        [since] = parse_qs(urlsplit(daemon.requests[0].target).query)["since"]
    assert since[-1] == "s" and least_s <= int(since[:-1]) <= most_s


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--since", "soon"), "--since needs a number and its unit"), (("--csv", "--json"), "do not go together")],
)
def test_what_cannot_be_asked_is_one_line(
    words: tuple[str, ...], said: str, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(home, *words) == 2
    assert said in capfd.readouterr().err
