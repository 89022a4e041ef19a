"""Draws the pictures of the README and of the pages: `python -m tests.browser.pictures DIRECTORY [NAME...]`.

Every screen in both themes, on a wide screen and on a phone, each picture below PICTURE_MAX. They show a Grass in which
work was done; `demo_state.py` makes it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.chromium import launch
from hatch_build import build_page
from playwright.sync_api import Page, sync_playwright
from tests.browser.browsing import PHONE, Site, new_context
from tests.browser.demo_state import lived_in

ROOT = Path(__file__).parent.parent.parent
#: No picture has more bytes.
PICTURE_MAX = 250_000
WIDE = (1280, 800)
#: Each screen: its name in the picture's, its address, and what is there when the screen is whole.
SCREENS = {
    "now": ("/", ".twin tbody tr"),
    "jobs": ("/jobs", ".row"),
    "job": ("/jobs/{running}", ".log-text"),
    "sweep": ("/sweeps/lr-sweep", "table tbody tr"),
    "machines": ("/machines", ".tile"),
    "queues": ("/queues", ".queue"),
    "submit": ("/new", "form"),
    "access": ("/access", "main h1"),
}


def settle(page: Page) -> None:
    """Wait until the page asks for nothing, and has drawn what it has."""
    page.wait_for_load_state("networkidle")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def first_running(site: Site) -> int:
    """Return the id of the job that has run longest."""
    return min(int(job["id"]) for job in site.grass.jobs("running"))


def draw(page: Page, site: Site, name: str, target: Path) -> None:
    """Write one picture."""
    address, sign = SCREENS[name]
    site.open(page, address.format(running=first_running(site)))
    page.locator(sign).first.wait_for(state="attached")
    if name == "now":
        page.locator(".twin tbody tr", has_text="planned").first.wait_for(state="attached")
        page.locator(".job-log").wait_for()
    if name == "queues":
        page.locator(".queue-name").first.click()
        page.locator(".head-row").first.wait_for()
    if name == "submit":
        page.get_by_label("Command").fill("python3 train.py --depth 50 --lr 0.1\npython3 train.py --depth 50 --lr 0.01")
        page.get_by_label("GPU").fill("0.5")
        page.get_by_label("Name", exact=True).fill("depth")
        page.get_by_text("It would ").wait_for()
    settle(page)
    page.screenshot(path=target)
    size = target.stat().st_size
    assert size < PICTURE_MAX, f"{target.name} has {size:,} bytes"


def main(folder: Path, names: list[str]) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    problem = build_page(ROOT, "require")
    assert problem is None, problem
    with tempfile.TemporaryDirectory() as place:
        site = lived_in(Path(place) / "home", Path(place) / "work")
        try:
            with sync_playwright() as playwright:
                browser = launch(playwright.chromium)
                for theme in ("light", "dark"):
                    for size, suffix in ((WIDE, ""), (PHONE, "-phone")):
                        page = new_context(browser, size, color_scheme=theme).new_page()
                        site.log_in(page)
                        for name in names or SCREENS:
                            draw(page, site, name, folder / f"{name}-{theme}{suffix}.png")
                        page.context.close()
                browser.close()
        finally:
            site.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
