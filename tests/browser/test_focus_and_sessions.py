"""Keys go to what has the focus, a dialog outlives a marked text, and another session begins without the first one."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PageWatch, Site, wait_for


def test_enter_presses_what_has_the_focus(site: Site, watched_page: Page) -> None:
    page, first = watched_page, site.grass.enqueue("--name", "first", "--hold", "--", "true")
    site.grass.enqueue("--name", "second", "--hold", "--", "true")
    site.open(page, "/jobs")
    page.locator(".row", has_text="second").wait_for()
    # The cursor is at another job than the one whose link has the focus.
    page.keyboard.press("j")
    page.locator(".row", has_text="first").get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    wait_for(page, lambda: page.url.endswith(f"/jobs/{first}"), "the link was followed")
    site.open(page, "/jobs")
    page.get_by_role("button", name="held").focus()
    page.keyboard.press("Enter")
    wait_for(page, lambda: "held" in page.url, "the state was chosen")
    page.get_by_role("navigation").get_by_role("link", name="Queues").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_keys_work_after_a_box_was_ticked(site: Site, watched_page: Page) -> None:
    page, job = watched_page, site.grass.enqueue("--name", "ticked", "--hold", "--", "true")
    site.open(page, "/jobs?q=name:ticked")
    box = page.locator(".row", has_text="ticked").get_by_role("checkbox")
    box.click()
    expect(box).to_be_checked()
    page.keyboard.press("Space")
    expect(box).not_to_be_checked()
    page.keyboard.press("Space")
    expect(box).to_be_checked()
    page.keyboard.press("K")
    page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    site.grass.until(job, "cancelled")


def test_a_dialog_stays_when_text_is_marked_to_the_outside(site: Site, watched_page: Page) -> None:
    page = watched_page
    site.open(page, "/queues")
    page.get_by_role("button", name="New queue").click()
    dialog = page.get_by_role("dialog")
    box = dialog.get_by_label("Name").bounding_box()
    assert box is not None
    dialog.get_by_label("Name").fill("typed")
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    expect(dialog.get_by_label("Name")).to_have_value("typed")
    page.mouse.click(5, 5)
    expect(dialog).to_have_count(0)


def test_a_queue_of_all_workers_is_deleted_where_it_is_defined(site: Site, watched_page: Page) -> None:
    page = watched_page
    site.grass.ok("create-queue", "shared", "--gpu=1", "--at-broker")
    site.open(page, "/queues")
    place = page.get_by_role("region", name="Queue shared", exact=True)
    expect(place).to_contain_text("0 / 1")
    place.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(place).to_have_count(0)


def test_another_session_in_the_same_tab_has_its_own_rights(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page, job = contexts().new_page(), site.grass.enqueue("--name", "ended", "--", "true")
    site.grass.until(job, "succeeded")
    # The reader's cookie has ended when the page asks with it for the last time.
    watched(page).expected += ["401", "403", "WebSocket"]
    site.log_in(page, scope="read", path=f"/jobs/{job}")
    expect(page.get_by_role("heading", name="ended")).to_be_visible()
    expect(page.get_by_role("button", name="Rerun")).to_have_count(0)
    link = site.link("admin")
    page.evaluate("(hash) => { location.hash = hash; }", link[link.index("#") :])
    expect(page.get_by_role("button", name="Rerun").first).to_be_visible()
    expect(page.locator(".connection.live")).to_be_visible()
