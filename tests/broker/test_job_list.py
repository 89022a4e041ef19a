"""Lists of jobs: filters, order and pages, and a bound on what one page reads."""

from __future__ import annotations

from typing import Any

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import job_list
from grassq.broker.job_list import JobQuery, list_jobs
from grassq.core.model import State
from grassq.store.base import JobScan


@pytest.fixture
def fixture() -> DeciderFixture:
    """Six jobs: 1 and 2 ran on w and ended, 3 and 4 are held, 5 is cancelled and 6 runs in queue q."""
    made = DeciderFixture(a_worker("w", cpu=1, offers=[an_offer(), an_offer("q")]))
    made.submit(a_draft(name="train"))
    made.exited(1)
    made.submit(a_draft("q"))
    made.exited(2, code=3)
    made.submit(a_draft(hold=True, name="train"), a_draft("q", hold=True), a_draft(hold=True))
    made.do(lambda batch: at_once.kill(batch, chosen(5), None))
    made.submit(a_draft("q", name="Eval"))
    return made


def listed(fixture: DeciderFixture, **asked: Any) -> list[int]:
    """The ids of all pages."""
    found: list[int] = []
    more = None
    while True:
        page = fixture.do(lambda batch: list_jobs(batch, JobQuery(after=more, **asked)))
        found += [job.id for job in page.jobs]
        assert len(page.jobs) <= asked.get("limit", job_list.LIMIT)
        if (more := page.more) is None:
            return found


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"descending": False}, [1, 2, 3, 4, 5, 6]),
        ({"states": frozenset({State.HELD})}, [4, 3]),
        ({"states": frozenset({State.SUCCEEDED, State.CANCELLED})}, [5, 1]),
        ({"queue": "q"}, [6, 4, 2]),
        ({"queue": "q", "states": frozenset({State.FAILED})}, [2]),
        ({"name": "train"}, [3, 1]),
        ({"name": "train", "queue": "q"}, []),
        ({"worker": "w"}, [6, 2, 1]),
        ({"worker": "v"}, []),
        ({"text": "eVaL"}, [6]),
        ({"text": "nowhere in it"}, []),
        ({"sort": "finished", "descending": False}, [1, 2, 5]),
        ({"sort": "finished", "finished": (0.0, float("inf"))}, [5, 2, 1]),
        ({"sort": "finished", "finished": (0.0, 1.0)}, []),
        ({"sort": "finished", "finished": (0.0, 1.0), "descending": False}, []),
        ({"finished": (0.0, 1.0)}, []),
        ({"states": frozenset({State.HELD, State.CANCELLED}), "descending": False}, [3, 4, 5]),
        ({"created": (0.0, float("inf"))}, [6, 5, 4, 3, 2, 1]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_filters_and_order_hold_over_all_pages(
    fixture: DeciderFixture, asked: dict[str, Any], ids: list[int], limit: int
) -> None:
    assert listed(fixture, limit=limit, **asked) == ids


def test_a_page_reads_a_bounded_number_of_rows_and_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "SCANNED_MAX", 20)
    monkeypatch.setattr(job_list, "CHUNK", 8)
    fixture = DeciderFixture(a_worker("w", cpu=1, offers=[an_offer()]))
    fixture.submit(a_draft(hold=True, name="rare"), *[a_draft(hold=True)] * 99)
    read: list[int] = []
    scan = fixture.store.scan

    def counted(wanted: JobScan, limit: int) -> Any:
        jobs = scan(wanted, limit)
        read.append(len(jobs))
        return jobs

    monkeypatch.setattr(fixture.store, "scan", counted)
    page = fixture.do(lambda batch: list_jobs(batch, JobQuery(text="rare")))
    assert page.jobs == [] and page.more is not None and sum(read) == 20
    assert listed(fixture, text="rare") == [1]
    read.clear()
    assert listed(fixture, name="rare") == [1]
    assert sum(read) == 1, "by an index"
