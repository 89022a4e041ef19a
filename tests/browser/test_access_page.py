"""The screen Access: tokens, codes and sessions, and the audit."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits


def test_a_session_is_listed_and_revoked_and_the_audit_tells(
    site: Site,
    watched_page: Page,
    page_watch: PageWatch,
    contexts: Callable[..., BrowserContext],
    watched: Callable[[Page], PageWatch],
) -> None:
    page = watched_page
    page_watch.expected.append("404")
    other = contexts().new_page()
    watched(other).expected += ["401", "WebSocket"]
    site.log_in(other, scope="read")
    site.open(page, "/access")
    rows = page.locator("section", has_text="Tokens, codes and sessions").locator("tbody tr")
    reader = rows.filter(has_text="read")
    expect(reader).to_have_count(1)
    axe(page, "Access")
    reader.get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    axe(page, "Access with a question")
    dialog.get_by_role("button", name="Revoke").click()
    expect(reader).to_have_count(0)
    # The other browser is out at once, and says how to come back.
    expect(other.get_by_text("Type grass web")).to_be_visible()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("POST /v1/tokens/revoke").first).to_be_visible()
    width, height = PHONE
    page.set_viewport_size({"width": width, "height": height})
    site.open(page, "/access")
    expect(page.get_by_text("POST /v1/tokens/revoke").first).to_be_attached()
    fits(page)
    expect(page.get_by_role("link", name="Access")).to_be_in_viewport(ratio=0.95)
    page.goto(f"{site.origin}/acess")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


def test_readers_see_no_access_page(site: Site, page_watch: PageWatch) -> None:
    page = page_watch.page
    site.log_in(page, scope="submit", path="/access")
    expect(page.get_by_text("needs the scope admin")).to_be_visible()
    expect(page.get_by_role("link", name="Access")).to_have_count(0)
