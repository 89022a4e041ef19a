"""One browser and one daemon per test file, and a page that is watched for each test.

The browser ends with its file: Playwright keeps an event loop in the thread, and no test of another folder could run
one. The scope `package` would not do: in a folder without `__init__.py` it lasts until the end of all tests.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.chromium import launch
from hatch_build import build_page
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.browser.browsing import WIDE, PageWatch, Site, new_context

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="package")
def built_page() -> None:
    """The page is built from its sources as they are; one worker of pytest builds it, the others wait."""
    folder = os.open(ROOT / "webui", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        problem = build_page(ROOT, "require")
    finally:
        os.close(folder)
    assert problem is None, problem


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; every test has its own context in it."""
    with sync_playwright() as playwright:
        started = launch(playwright.chromium)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Iterator[Site]:
    """A daemon in a home of its own, with four devices; the tests of one file share it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "work").mkdir()
    found = Site(folder / "home", folder / "work")
    yield found
    found.close()


@pytest.fixture
def contexts(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browsers without a history: contexts(size, color_scheme="dark")."""
    made: list[BrowserContext] = []

    def make(size: tuple[int, int] = WIDE, **options: object) -> BrowserContext:
        made.append(new_context(browser, size, **options))
        return made[-1]

    yield make
    for context in made:
        context.close()


@pytest.fixture
def watched(site: Site) -> Iterator[Callable[[Page], PageWatch]]:
    """Watches a page: what it must not do fails the test at its end."""
    watches: list[PageWatch] = []

    def watch(page: Page) -> PageWatch:
        watches.append(PageWatch(page, site.origin))
        return watches[-1]

    yield watch
    for each in watches:
        each.check()


@pytest.fixture
def page_watch(contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]) -> PageWatch:
    """The watch over `watched_page`, for a test that provokes a complaint: `page_watch.expected.append("400")`."""
    return watched(contexts().new_page())


@pytest.fixture
def watched_page(site: Site, page_watch: PageWatch) -> Page:
    """A page in a fresh browser, logged in and watched."""
    site.log_in(page_watch.page)
    return page_watch.page
