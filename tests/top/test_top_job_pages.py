"""The table reads pages from any job on, and keeps a window of rows only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.top.scripted import Answers, Client, Job, job, page

from grassq.cli.top.filters import JobFilter, parse_filter
from grassq.cli.top.job_pages import ACTIVE, NEWEST, ORDERS, PlacedJob, read, resolve, segments_of
from grassq.cli.top.job_window import WINDOW_ROWS, JobWindow

STATES = ("held", "waiting", "queued", "placed", "running", "succeeded", "failed", "cancelled")
jobs_of_states = st.lists(st.sampled_from(STATES), min_size=0, max_size=230).map(
    lambda states: [job(at + 1, state) for at, state in enumerate(states)]
)


def asking(jobs: Sequence[Job]) -> Any:
    return lambda pairs: page(list(jobs), [(name, str(value)) for name, value in pairs if value is not None])


def whole(
    jobs: Sequence[Job], wanted: JobFilter, order: str, *, is_reversed: bool = False, down: bool = True
) -> list[int]:
    """Every job of a list, read to its end in small pages."""
    chain, rows, resume = segments_of(wanted, order, is_reversed=is_reversed), list[PlacedJob](), None
    while True:
        known = {row.place.id for row in rows}
        start = (rows[-1] if down else rows[0]).place if rows else None
        found = read(asking(jobs), chain, start, down=down, count=30, known=known, resume=resume)
        rows = rows + found.rows if down else found.rows + rows
        resume = found.resume
        if found.is_end:
            return [row.place.id for row in rows]


@settings(max_examples=60, deadline=None)
@given(jobs=jobs_of_states, order=st.sampled_from(ORDERS), is_reversed=st.booleans())
def test_pages_down_and_pages_up_give_every_job_once_in_the_same_order(
    jobs: list[Job], order: str, is_reversed: bool
) -> None:
    wanted = JobFilter()
    ids = whole(jobs, wanted, order, is_reversed=is_reversed)
    assert len(ids) == len(set(ids))
    expected = {each["id"] for each in jobs if order != "finished" or each["finished"]}
    assert set(ids) == expected
    assert whole(jobs, wanted, order, is_reversed=is_reversed, down=False) == ids


def test_what_runs_comes_first_then_what_waits_then_what_ended_last() -> None:
    jobs = [job(1, "succeeded"), job(2, "queued"), job(3, "running"), job(4, "failed"), job(5, "held")]
    assert whole(jobs, JobFilter(), ACTIVE) == [3, 2, 5, 4, 1]


def test_a_filter_is_asked_of_the_daemon() -> None:
    jobs = [job(at, "failed" if at % 3 else "queued", name="a" if at % 2 else None) for at in range(1, 201)]
    assert whole(jobs, parse_filter("failed name:a"), NEWEST) == [at for at in range(200, 0, -1) if at % 3 and at % 2]
    assert whole(jobs, parse_filter("7 100-103"), ACTIVE) == [7, 100, 101, 102, 103]
    assert whole(jobs, parse_filter("text:--lr=199"), ACTIVE) == [199]
    assert whole(jobs, parse_filter("100-103 failed"), ACTIVE) == [100, 101, 103]


def test_a_word_is_a_queue_else_a_name_else_a_part_of_a_command() -> None:
    client: Any = Client(Answers([job(1, name="train"), job(2, queue="q")]))
    assert resolve(client, parse_filter("q"), ["q"]) == JobFilter(queue="q")
    assert resolve(client, parse_filter("train"), ["q"]) == JobFilter(name="train")
    assert resolve(client, parse_filter("rain"), ["q"]) == JobFilter(text="rain")


def test_a_search_that_finds_little_goes_on_where_it_stopped() -> None:
    jobs = [job(at) for at in range(1, 1001)]
    found = read(asking(jobs), segments_of(parse_filter("text:--lr=990"), "oldest"), None, down=True, count=10)
    assert found.rows == [] and not found.is_end and found.resume is not None
    assert whole(jobs, parse_filter("text:--lr=990"), "oldest") == [990]


class Browser:
    """A window that asks for the rows it needs, as the screen does."""

    def __init__(self, jobs: Sequence[Job], height: int = 20) -> None:
        self.jobs, self.height, self.window = list(jobs), height, JobWindow()
        self.chain = segments_of(JobFilter(), ACTIVE)
        self.reload()

    def reload(self) -> None:
        window = self.window
        first = None if window.is_start or not window.rows else window.rows[0].place
        found = read(asking(self.jobs), self.chain, first, down=True, count=60, inclusive=True)
        window.replace(found, from_start=first is None)
        window.show_cursor(self.height)
        self.fill()

    def fill(self) -> None:
        while (need := self.window.need(self.height)) is not None:
            known = set(self.window.ids())
            found = read(
                asking(self.jobs), self.chain, need.start, down=need.down, count=60, known=known, resume=need.resume
            )
            self.window.extend(found, down=need.down)

    def press(self, by: int) -> None:
        self.window.move(by, self.height)
        self.fill()


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.integers(-90, 120), max_size=40))
def test_the_cursor_goes_over_every_job_and_the_window_stays_small(steps: list[int]) -> None:
    browser = Browser([job(at, "queued") for at in range(1, 1501)])
    for by in steps:
        before = browser.window.job
        browser.press(by)
        after, window = browser.window.job, browser.window
        assert before is not None and after is not None
        moved = after["id"] - before["id"]
        assert abs(moved) <= abs(by) and moved * by >= 0
        assert len(window.rows) <= WINDOW_ROWS + 100
        assert window.top <= window.cursor < window.top + browser.height
        assert window.ids() == list(range(window.ids()[0], window.ids()[-1] + 1))


def test_the_cursor_and_the_marks_stay_with_their_jobs() -> None:
    browser = Browser([job(at, "queued") for at in range(1, 41)])
    browser.press(10)
    browser.window.toggle()
    browser.jobs[2] = job(3, "running")
    browser.jobs[30] = job(31, "running")
    browser.reload()
    assert browser.window.job is not None and browser.window.job["id"] == 11
    assert browser.window.marks == {11} and browser.window.ids()[:3] == [3, 31, 1]


def test_a_range_marks_everything_between() -> None:
    browser = Browser([job(at, "queued") for at in range(1, 101)])
    browser.press(5)
    browser.window.toggle_range()
    browser.press(30)
    browser.window.toggle_range()
    browser.press(10)
    assert browser.window.chosen() == list(range(6, 37))
