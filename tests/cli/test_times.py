"""Times as people write them: how long ago, by the clock, or as a date."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import FakeDaemon, stored
from tests.cli.fake_broker import Certificate, FakeBroker, let_in

from grassq.cli.job_text import since_s
from grassq.errors import BadInput

NOON = datetime(2026, 5, 4, 12, 0).timestamp


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("10m", datetime(2026, 5, 4, 11, 50)),
        ("2d", datetime(2026, 5, 2, 12, 0)),
        ("0", datetime(2026, 5, 4, 12, 0)),
        ("11:30", datetime(2026, 5, 4, 11, 30)),
        ("12:00", datetime(2026, 5, 4, 12, 0)),
        ("9:05:30", datetime(2026, 5, 4, 9, 5, 30)),
        ("23:00", datetime(2026, 5, 3, 23, 0)),
        ("2026-05-01", datetime(2026, 5, 1)),
        ("2026-05-01T10:00", datetime(2026, 5, 1, 10, 0)),
        ("2026-05-01 10:00", datetime(2026, 5, 1, 10, 0)),
    ],
)
def test_a_time_is_read_as_people_write_it(typed: str, meant: datetime) -> None:
    assert since_s(typed, NOON()) == NOON() - meant.timestamp()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("soon", "--since needs a number and its unit"),
        ("7", "--since 7 has no unit"),
        ("25:61", "--since '25:61': there is no such time"),
        ("2026-99-01", "--since '2026-99-01': write a time as 2026-01-31T14:30"),
        ("2026-05-04T12:01", "--since '2026-05-04T12:01' is in the future"),
        ("9999-12-31T23:59", "is in the future"),
        ("2020-01-01", "--since may be at most 365d ago"),
        ("0001-01-01", "--since"),
        ("400d", "--since may be at most 365d"),
        ("2026-\x1b[2J", "write a time as"),
    ],
)
def test_what_is_no_time_is_refused_in_one_line(typed: str, said: str) -> None:
    with pytest.raises(BadInput, match=r"^[ -~]+$") as refused:
        since_s(typed, NOON())
    assert said in str(refused.value)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone in which 2026-03-29 has 23 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_a_clock_that_was_set_forward_in_the_night_is_read_right() -> None:
    now = datetime(2026, 3, 29, 8, 0).timestamp()
    assert since_s("22:00", now) == 9 * 3600


@pytest.mark.parametrize("broker", [False, True])
def test_a_start_time_is_that_of_the_clock_of_who_types_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: bool
) -> None:
    monkeypatch.setenv("TZ", "XXX-5:30")
    answers = stored(b"job 1 waiting in default\n")
    certificate = Certificate(tmp_path)
    with FakeBroker(certificate, lambda _: answers) if broker else FakeDaemon(home, lambda _: answers) as daemon:
        if isinstance(daemon, FakeBroker):
            let_in(home, certificate.fingerprint, daemon.address)
        where = [f"--broker={daemon.address}"] if isinstance(daemon, FakeBroker) else []
        for words in (
            ["--at", "7:00", "--at", "18:00"],
            ["--at=2031-02-03T04:05"],
            ["q", "--at", "2031-02-03T04:05Z"],
            ["--at", "x"],
        ):
            assert calls.grass(home, "enqueue", *where, *words, "--", "true").returncode == 0
        calls.grass(home, "edit", *where, "1", "--set", "at=2031-02-03T04:05")
    today, date, zoned, strange, edit = (request.document for request in daemon.requests)
    assert edit["set"] == {"at": "2031-02-03T04:05:00+05:30"}
    at = datetime.fromisoformat(today["at"])
    assert today["at"].endswith("T18:00:00+05:30") and 0 <= at.timestamp() - time.time() + 60 <= 86_460
    assert date["at"] == "2031-02-03T04:05:00+05:30"
    assert datetime.fromisoformat(zoned["at"]) == datetime(2031, 2, 3, 4, 5, tzinfo=UTC)
    assert "at" not in strange, "the daemon says what is wrong"
    assert today["words"] == ["--at", "7:00", "--at", "18:00", "--", "true"], "the words stay as they were typed"
