"""An open page is live: changes show by themselves, a killed daemon is told and caught up with, nothing piles up."""

from __future__ import annotations

from collections.abc import Callable

from bench.chromium import launch
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.browsing import PageWatch, Site, measure, new_context, wait_for
from tests.browser.day import ELEMENTS_MAX, NO_COMPILER, Day, grown

#: A short day: rounds through all screens, and changes of jobs in each. `python -m tests.browser.day` lives a long one.
WARM_ROUNDS, ROUNDS, CHANGES = 3, 4, 600
JOBS = 100_000
#: A row that nobody scrolls to step by step.
FAR = 80_000


def rows(page: Page) -> dict[str, str]:
    """Return the states of the jobs that the table shows, by their ids."""
    found = page.locator('[role="grid"] [role="row"]').all_inner_texts()
    ids = [[word for word in text.split() if word.isdecimal()] for text in found]
    return {words[0]: text for words, text in zip(ids, found, strict=True) if words}


def agrees(shown: dict[str, str], wanted: dict[str, str]) -> bool:
    """Tell whether a table shows exactly these jobs in these states."""
    return set(shown) == set(wanted) and all(state in shown[job] for job, state in wanted.items())


def test_a_killed_daemon_is_told_and_caught_up_with_in_two_tabs(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    context = contexts()
    one, two, three = (context.new_page() for _ in range(3))
    for page in (one, two, three):
        # A request while the daemon is away is refused by the system, which the browser reports.
        watched(page).expected += ["net::ERR_", "WebSocket connection"]
    site.log_in(one, path="/jobs")
    site.open(two, "/jobs")
    site.open(three, "/jobs")
    first = site.grass("enqueue", "-q", "--name", "before", "--", "sleep", "600").out.strip()
    for page in (one, two):
        expect(page.get_by_text("before").first).to_be_visible()
        page.evaluate("window.kept = true")
    site.grass.crash()
    for page in (one, two):
        expect(page.locator(".connection.lost")).to_contain_text("not live since")
        expect(page.get_by_text("before").first).to_be_visible()
    # A screen whose code has not come yet says why, and comes by itself when the daemon is back.
    three.get_by_role("link", name="Queues").click()
    expect(three.get_by_role("alert")).to_contain_text("the daemon does not answer")
    site.grass("kill", first)
    second = site.grass("enqueue", "-q", "--name", "after", "--", "sleep", "600").out.strip()
    for page in (one, two):
        expect(page.locator(".connection.live")).to_be_visible()
        expect(page.get_by_text("after").first).to_be_visible()
        wait_for(page, lambda page=page: "cancelled" in rows(page).get(first, ""), "the kill shows")  # type: ignore[misc]
        assert page.evaluate("window.kept"), "the page was loaded anew"
    site.grass.until(int(second), "running")
    wanted = {str(job["id"]): job["state"] for job in site.grass.json("show", "all")["jobs"]}
    for page in (one, two):
        wait_for(page, lambda page=page: agrees(rows(page), wanted), "the tab shows what the daemon has")  # type: ignore[misc]
    expect(three.get_by_role("heading", name="Queues")).to_be_visible()
    expect(three.get_by_role("alert")).to_have_count(0)
    site.grass("kill", second)


def test_a_compressed_day_leaves_nothing_behind(
    site: Site, browser: Browser, watched: Callable[[Page], PageWatch]
) -> None:
    with launch(browser.browser_type, NO_COMPILER) as plain:
        page = new_context(plain).new_page()
        watched(page)
        site.log_in(page)
        day = Day(site, page)
        before = day.live(WARM_ROUNDS * CHANGES, WARM_ROUNDS * day.round())
        after = day.live(ROUNDS * CHANGES, ROUNDS * day.round())
        assert not grown(before, after), (before, after)
        day.is_right()
        day.close()


def test_a_hundred_thousand_jobs_are_one_table(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    grass("create-queue", "big", "--gpu=1")
    grass("pause", "big")
    done = grass.bash(f"seq -f 'true %.0f' 0 {JOBS - 1} | grass enqueue big --gpu=1 --stdin")
    assert done.code == 0, done.err
    newest = int(grass.json("show", "@")["jobs"][0]["id"])
    site.open(page, "/jobs?q=queue%3Abig")
    grid = page.locator('[role="grid"]')
    wait_for(page, lambda: int(grid.get_attribute("aria-rowcount") or 0) >= JOBS, "the count of all rows")
    assert grid.locator('[role="row"]').count() < 200, "only rows that can be seen are drawn"
    # The scroll bar reaches any row, and the right one is there.
    grid.evaluate("(grid, row) => { grid.scrollTop = row * 30; }", FAR)
    wanted = str(newest - FAR)
    wait_for(page, lambda: f"true {JOBS - 1 - FAR}" in rows(page).get(wanted, ""), f"row {FAR}, which is job {wanted}")
    # A filter that the server applies.
    search = page.get_by_placeholder("Search: words")
    search.fill("queue:big text:99999")
    search.press("Enter")
    wait_for(page, lambda: "true 99999" in grid.inner_text(), "the one job")
    assert measure(page)["elements"] <= ELEMENTS_MAX
    grass("kill", "queue:big")
