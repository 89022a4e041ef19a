"""Every screen and every dialog: without a serious finding of axe in both themes, and no wider than a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits
from tests.browser.demo_state import lived_in
from tests.browser.screens import Jobs, walk

#: The jobs of the pictures take seconds; here they take a fraction of that.
PACE = 30.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Iterator[Site]:
    """A daemon in which much was done and more waits, as in the pictures."""
    folder = tmp_path_factory.mktemp("lived-in")
    found = lived_in(folder / "home", folder / "work", PACE)
    yield found
    found.close()


@pytest.fixture(scope="module")
def jobs(site: Site) -> Jobs:
    """The jobs that the screens are about."""
    first = {state: min(job["id"] for job in site.grass.jobs(state)) for state in ("running", "queued", "failed")}
    return Jobs(first["running"], first["queued"], first["failed"])


def test_every_screen_and_dialog_is_readable_in_both_themes(site: Site, jobs: Jobs, page_watch: PageWatch) -> None:
    page = page_watch.page
    page_watch.expected += ["status of 404"]
    for path in ("/", "/jobs"):
        page.goto(site.origin + path)
        page.get_by_role("button", name="Log in").wait_for()
    both_themes(page, "without a session")
    page_watch.expected += ["status of 401"]
    site.log_in(page)
    for name in walk(site, page, jobs):
        both_themes(page, name)


def both_themes(page: Page, name: str) -> None:
    """Check one state of the page in the light and in the dark."""
    axe(page, name)
    page.emulate_media(color_scheme="dark")
    axe(page, f"{name}, dark", rules=("color-contrast",))
    page.emulate_media(color_scheme="light")


def test_every_screen_fits_a_phone(
    site: Site, jobs: Jobs, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page = contexts(PHONE, has_touch=True).new_page()
    watched(page).expected += ["status of 404", "status of 401"]
    page.goto(site.origin)
    page.get_by_role("button", name="Log in").wait_for()
    fits(page, "the page without a session")
    site.log_in(page)
    for name in walk(site, page, jobs, is_phone=True):
        fits(page, f"{name}, on a phone")
        if "," not in name:
            axe(page, f"{name}, on a phone")
