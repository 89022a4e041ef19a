"""Every screen of the page and everything that opens on it, so that one check can be made of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, TimeoutError, expect
from tests.browser.browsing import Site, wait_for

#: A dialog opens within this time after its keys, or the keys were lost.
OPENS_MS = 3_000


@dataclass(frozen=True)
class Jobs:
    """The ids of jobs that the screens are about."""

    running: int
    waiting: int
    failed: int


@dataclass(frozen=True)
class Screen:
    """One address, what is there when it is whole, and what opens on it: dialogs, and menus or parts."""

    address: str
    sign: str
    dialogs: tuple[Callable[[Page], Locator], ...] = ()
    parts: tuple[Callable[[Page], Locator], ...] = ()
    #: Those that a phone has no room for.
    wide_parts: tuple[Callable[[Page], Locator], ...] = ()


def button(name: str, within: str = "main") -> Callable[[Page], Locator]:
    """Return how the first button of a name is found."""
    return lambda page: page.locator(within).get_by_role("button", name=re.compile(f"^{name}")).first


def titled(words: str) -> Callable[[Page], Locator]:
    """Return how a button is found whose words change."""
    return lambda page: page.get_by_title(words)


def tab(name: str) -> Callable[[Page], Locator]:
    """Return how a tab is found."""
    return lambda page: page.get_by_role("tab", name=name)


def words(text: str) -> Callable[[Page], Locator]:
    """Return how the first place of a text is found."""
    return lambda page: page.get_by_text(text, exact=True).first


SCREENS = {
    "now": Screen("/", ".twin tbody tr", parts=(button("Table"),)),
    "jobs": Screen("/jobs", ".row .c-id, .row .card", parts=(titled("Views"),), wide_parts=(button("Columns"),)),
    "running job": Screen("/jobs/{running}", ".log-text", (button("Kill"),), (tab("Details"), tab("Story"))),
    "waiting job": Screen("/jobs/{waiting}", ".job-why", (button("Hold"), button("Edit")), (button("More"),)),
    "failed job": Screen("/jobs/{failed}", ".log-text", (button("Rerun$"),), (tab("Details"),)),
    "sweeps": Screen("/sweeps", "main table a"),
    "sweep": Screen("/sweeps/lr-sweep", ".sweep-table tbody tr"),
    "machines": Screen(
        "/machines",
        ".tile",
        (button("Add devices"), button("Add a machine"), button("Drain"), button("Remove", ".tile")),
    ),
    "queues": Screen(
        "/queues", ".queue", (button("New queue"), button("Pause$"), button("Pause everything"), button("Delete"))
    ),
    "submit": Screen("/new", "form", parts=(words("More options"),)),
    "submit a grid": Screen("/new?mode=grid", "form", parts=(button("Add a parameter"),)),
    "submit a batch": Screen("/batchaddjobs", "form"),
    "access": Screen("/access", "main table tbody tr", (button("New code"), button("Revoke"))),
    "gpupeasy": Screen("/gpupeasy", "main section"),
    "no such job": Screen("/jobs/99999999", "main .problem, main .empty"),
    "no such page": Screen("/jobs/1/2/3", "main h1"),
}


def walk(site: Site, page: Page, jobs: Jobs, *, is_phone: bool = False) -> Iterator[str]:
    """Go to every screen, open everything that opens there, and yield the name of each state of the page."""
    numbers = {"running": jobs.running, "waiting": jobs.waiting, "failed": jobs.failed}
    for name, screen in SCREENS.items():
        site.open(page, screen.address.format(**numbers))
        page.locator(screen.sign).first.wait_for(state="attached")
        yield name
        for number, find in enumerate(screen.parts + (() if is_phone else screen.wide_parts)):
            find(page).click()
            yield f"{name}, part {number + 1}"
            page.keyboard.press("Escape")
        for number, find in enumerate(screen.dialogs):
            find(page).click()
            yield from in_dialog(page, f"{name}, dialog {number + 1}")
    for keys, name in (("Control+k", "the palette"), ("?", "the help")):
        wait_for(page, lambda keys=keys: opens(page, keys), f"{keys} opens {name}")  # type: ignore[misc]
        yield from in_dialog(page, name)


def opens(page: Page, keys: str) -> bool:
    """Press keys, and tell whether a dialog has opened: keys that come while a screen is loaded are lost."""
    page.keyboard.press(keys)
    try:
        page.get_by_role("dialog").wait_for(timeout=OPENS_MS)
    except TimeoutError:
        return False
    return True


def in_dialog(page: Page, name: str) -> Iterator[str]:
    """Wait for a dialog with what it asks the daemon for, yield its name, and leave it."""
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    expect(dialog.get_by_text("Counting…")).to_have_count(0)
    yield name
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
