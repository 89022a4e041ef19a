"""The screen Jobs: a table of any length that is live, keeps still under the hand, and acts on what was meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits, measure, press_both, wait_for

MANY = 3_000


@pytest.fixture(scope="module")
def filled(site: Site) -> Site:
    """A site with many jobs that are held, and one that has failed."""
    grass = site.grass
    done = grass.bash(f"seq {MANY} | sed 's/^/echo /' | grass enqueue --hold --name bulk --stdin")
    assert done.code == 0, done
    failed = grass.enqueue("--name", "broken", "--", "sh", "-c", "echo it is over; exit 3")
    grass.until(failed, "failed")
    return site


def ids_of(page: Page) -> list[int]:
    """The ids of the rows that are drawn, from the top."""
    return [int(text) for text in page.locator(".row .c-id").all_inner_texts()]


def test_the_table_shows_any_row_of_many_jobs_and_what_changes(filled: Site, watched_page: Page) -> None:
    page, grass = watched_page, filled.grass
    filled.open(page, "/jobs")
    wait_for(page, lambda: ids_of(page)[:1] >= [MANY], "the newest job is the first")

    # A new job appears at the top, and its row follows its state.
    job = grass.gated("gate", "--name", "fresh")
    page.locator(".row .c-name", has_text="fresh").wait_for()
    row = page.locator(".row", has=page.locator(".c-name", has_text="fresh"))
    expect(row.locator(".state")).to_have_text("▶running")
    grass.open_gate("gate")
    expect(row.locator(".state")).to_have_text("✓succeeded")

    # Any place of the list shows the right rows; the page holds few of them.
    grid = page.locator(".grid")
    expect(grid).to_have_attribute("aria-rowcount", str(job + 1))
    grid.evaluate("(grid) => { grid.scrollTop = 2000 * 30; }")
    wait_for(page, lambda: job - 2000 in ids_of(page), "row 2,000 is shown")
    expect(page.locator(".row.placeholder")).to_have_count(0)
    assert measure(page)["elements"] < 3_000
    shown = ids_of(page)
    assert shown == sorted(shown, reverse=True)

    # While the list is scrolled its order stays, and what came is offered.
    before = ids_of(page)
    grass.enqueue("--name", "later", "--", "true")
    page.get_by_role("button", name="changed, refresh").wait_for()
    assert ids_of(page) == before
    page.get_by_role("button", name="changed, refresh").click()
    wait_for(page, lambda: ids_of(page) != before, "the new order is shown")
    grid.evaluate("(grid) => { grid.scrollTop = 0; }")
    page.locator(".row .c-name", has_text="later").wait_for()

    # Sorting and searching are in the address, and the daemon says what it cannot read.
    page.get_by_role("button", name="Name").click()
    expect(page.locator("[role=columnheader][aria-sort=ascending]")).to_contain_text("Name")
    wait_for(page, lambda: "sort=name" in page.url, "the sort is in the address")
    page.get_by_label("Search jobs").fill("state:failed")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row .c-why")).to_contain_text("it is over")
    expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="all", exact=False).first.click()
    wait_for(page, lambda: "q=" not in page.url, "all states are wanted")
    axe(page)


def test_a_wrong_query_is_explained_where_it_is_typed(filled: Site, watched_page: Page, page_watch: PageWatch) -> None:
    page = watched_page
    page_watch.expected.append("400")
    filled.open(page, "/jobs")
    page.locator(".row").first.wait_for()
    with page.expect_response(lambda response: "/v1/jobs/window" in response.url and response.status == 400):
        page.get_by_label("Search jobs").fill("stat:failed")
    expect(page.locator("#query-problem")).to_contain_text("did you mean state")
    page.get_by_label("Search jobs").fill("name:broken")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#query-problem")).to_have_count(0)


def test_an_action_is_about_what_was_selected(
    filled: Site, watched_page: Page, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page, grass = watched_page, filled.grass
    grass.bash("seq 40 | sed 's/^/echo /' | grass enqueue --hold --name doomed --stdin")
    filled.open(page, "/jobs?q=name:doomed&sort=id&order=asc")
    page.get_by_label("Select all that match").check()
    expect(page.get_by_text("40 jobs selected")).to_be_visible()
    rows = page.locator(".row")
    spared = int(rows.nth(3).locator(".c-id").inner_text())
    rows.nth(3).get_by_role("checkbox").uncheck()
    expect(page.get_by_text("39 jobs selected")).to_be_visible()

    # A job that comes meanwhile is not meant.
    late = grass.enqueue("--hold", "--name", "doomed", "--", "true")
    page.get_by_role("button", name="1 changed, refresh").wait_for()
    page.get_by_role("button", name="Kill", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This would kill 39 jobs")
    axe(page, "the dialog")
    dialog.get_by_role("button", name="Kill").click()
    expect(page.get_by_text("39 jobs killed")).to_be_visible()
    left = [job["id"] for job in grass.jobs("doomed") if job["state"] == "held"]
    assert left == [spared, late]

    # Some rows, by shift-click.
    filled.open(page, "/jobs?q=name:bulk&sort=id&order=asc")
    rows.nth(1).get_by_role("checkbox").check()
    rows.nth(4).get_by_role("checkbox").click(modifiers=["Shift"])
    expect(page.get_by_text("4 jobs selected")).to_be_visible()
    page.get_by_role("button", name="Release", exact=True).click()
    dialog.get_by_role("button", name="Release 4 jobs").click()
    wait_for(page, lambda: grass.job(5)["state"] == "succeeded", "the jobs run")
    assert grass.job(1)["state"] == grass.job(6)["state"] == "held"

    # Who may only read sees nothing that would be refused.
    reader = contexts().new_page()
    watched(reader)
    filled.log_in(reader, "read", "/jobs")
    reader.locator(".row").first.wait_for()
    expect(reader.get_by_role("checkbox")).to_have_count(0)
    reader.keyboard.press("j")
    reader.keyboard.press("K")
    assert reader.get_by_role("dialog").count() == 0


def test_an_action_on_a_query_is_about_the_jobs_that_were_shown(
    filled: Site, watched_page: Page, page_watch: PageWatch
) -> None:
    page, grass = watched_page, filled.grass
    page_watch.expected.append("409")
    older, oldest, one, two = (grass.enqueue("--hold", "--name", "ended", "--", "true") for _ in range(4))
    grass.ok("kill", str(one), str(two))
    filled.open(page, "/jobs?q=name:ended state:cancelled")
    page.get_by_label("Select all that match").check()
    page.get_by_role("button", name="Clean", exact=True).click()
    dialog = page.get_by_role("dialog")
    act = dialog.get_by_role("button", name="Clean 2 jobs")
    expect(act).to_be_enabled()

    # An older job comes to match after the jobs were counted: nothing is done, and the new number is shown.
    grass.ok("kill", str(older))
    act.click()
    expect(dialog).to_contain_text("3 jobs match now and not 2")
    expect(dialog).to_contain_text("This would remove 3 jobs")
    assert len(grass.jobs("ended")) == 4

    # One leaves and another comes: as many jobs as before, and not the same ones.
    expect(dialog.get_by_role("button", name="Clean 3 jobs")).to_be_enabled()
    grass.ok("clean", str(one))
    grass.ok("kill", str(oldest))
    dialog.get_by_role("button", name="Clean 3 jobs").click()
    expect(dialog).to_contain_text("other jobs are meant now than those that were shown")
    assert len(grass.jobs("ended")) == 3
    expect(dialog.get_by_role("button", name="Clean 3 jobs")).to_be_enabled()
    dialog.get_by_role("button", name="Clean 3 jobs").click()
    expect(page.get_by_text("3 jobs removed")).to_be_visible()
    expect(page.locator(".row")).to_have_count(0)


def test_keys_and_the_phone(
    filled: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page = contexts(PHONE, color_scheme="dark").new_page()
    watched(page)
    filled.log_in(page, path="/jobs?q=name:bulk&sort=id&order=asc")
    page.locator(".row .card").first.wait_for()
    fits(page)
    for key in ("j", "j", "k", "x"):
        page.keyboard.press(key)
    expect(page.locator(".row.cursor.selected")).to_have_attribute("aria-rowindex", "2")
    expect(page.get_by_text("1 job selected")).to_be_visible()
    axe(page)
    page.keyboard.press("Escape")
    page.keyboard.press("G")
    expect(page.locator(".row.cursor")).to_have_attribute("aria-rowindex", str(MANY + 1))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{MANY}")

    # There and back without loading the page again: each screen has its own keys.
    for _ in range(3):
        page.locator(".job-head").wait_for()
        press_both(page, "g", "j", page.locator(".row .card").first)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
    page.locator(".job-head").wait_for()
