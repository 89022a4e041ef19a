"""The screen Now: the timeline and its table say what ran, runs and is planned; the line is moved; the log follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits, still_box, wait_for

#: Where the timeline draws now: the labels on the left, then the past, then 0.4 times as much of the future.
GUTTER, AHEAD = 128, 1.4


@pytest.fixture(autouse=True)
def closely(page_watch: PageWatch) -> None:
    """The last minute is shown: jobs of half a second are blocks of their own."""
    page_watch.page.add_init_script("localStorage.setItem('grass.timeline.span', '60')")


def row(page: Page, words: str) -> str:
    """What the table beside the picture says of a job."""
    return " ".join(page.locator(".twin tbody tr", has_text=words).first.inner_text().split())


def says(page: Page, words: str, pattern: str) -> None:
    """Wait until the table says this of a job."""
    wait_for(page, lambda: re.search(pattern, row(page, words)), f"the row of {words}")


def line_of(page: Page) -> list[int]:
    """The ids of the jobs that start next, as they are shown."""
    texts = page.locator(".line .line-job").all_inner_texts()
    return [int(text.split()[0]) for text in texts]


def in_line(site: Site) -> list[int]:
    """The ids of the jobs that start next, as the daemon has them."""
    with site.grass.client() as client:
        return [job["id"] for job in client.get("line")["jobs"]]


def shown_seconds(page: Page) -> int:
    """How long the range in the address is."""
    query = parse_qs(urlsplit(page.url).query)
    return int(query["to"][0]) - int(query["from"][0])


def test_without_jobs_it_says_how_to_begin_and_then_shows_what_happens(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    expect(page.locator(".begin code").first).to_have_text("grass enqueue python train.py")
    axe(page, "Now without jobs")

    good = grass.enqueue("--gpu=1", "--name", "good", "--", "sleep", "0.5")
    bad = grass.enqueue("--gpu=1", "--name", "bad", "--", "sh", "-c", "sleep 0.5; exit 3")
    grass.until(bad, "failed")
    grass.until(good, "succeeded")
    running = grass.gated("gate", "--gpu=0.5", "--name", "half")
    expect(page.locator(".twin tbody tr", has_text="half")).to_be_attached()
    expect(page.locator(".begin")).to_have_count(0)
    says(page, "good", rf"gpu \d {good} good .* ✓ ?succeeded")
    says(page, "bad", rf"gpu \d {bad} bad .* ✗ ?failed.*exit 3")
    says(page, "half", rf"gpu \d {running} half since .* ▶ ?running")
    expect(page.locator(".figure", has_text="running").locator(".figure-value")).to_have_text("1")
    expect(page.locator(".figure", has_text="failed in 24 h").locator(".figure-value")).to_have_text("1")
    expect(page.locator(".figure", has_text="devices free").locator(".figure-value")).to_have_text("3 / 4")

    # The log below is the running job's, until somebody chooses another one.
    expect(page.locator(".job-log-head")).to_contain_text(f"{running}")
    grass.open_gate("gate")
    grass.until(running, "succeeded")
    wait_for(page, lambda: "succeeded" in row(page, "half"), "the block has ended")


def test_the_picture_is_used_by_mouse_and_by_keys(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    oom = grass.enqueue("--gpu=1", "--name", "oom", "--shell", "echo 'RuntimeError: CUDA out of memory.'; exit 1")
    grass.until(oom, "failed")
    job = grass.gated("gate2", "--gpu=1", "--name", "seen")
    site.open(page, "/")
    expect(page.locator(".twin tbody tr", has_text="seen")).to_be_attached()
    box = still_box(page, page.locator(".timeline canvas"))
    now_x = GUTTER + (box["width"] - GUTTER) / AHEAD

    # Beside the line of now is the running block: the pointer shows what it is, a click chooses it.
    def found() -> bool:
        for y in range(40, int(box["height"]), 9):
            page.mouse.move(box["x"] + now_x - 1, box["y"] + y)
            said = page.evaluate("document.querySelector('.timeline-card')?.textContent ?? ''")
            if all(words in said for words in ("seen", "running", "gpu 1")):
                return True
        return False

    wait_for(page, found, "the card of the running block")
    page.mouse.down()
    page.mouse.up()
    wait_for(page, lambda: f"job={job}" in page.url, "the chosen job is in the address")

    # Wheel and drag look elsewhere; the key . comes back.
    back = page.get_by_role("button", name="Back to now")
    page.mouse.move(box["x"] + now_x - 200, box["y"] + 60)
    page.mouse.wheel(0, -240)
    expect(back).to_be_visible()
    page.keyboard.press(".")
    expect(back).to_have_count(0)
    page.mouse.down()
    page.mouse.move(box["x"] + now_x - 80, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(back).to_be_visible()
    page.get_by_role("button", name="6 h").click()
    expect(back).to_have_count(0)
    expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="1 h", exact=True).click()
    expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute("aria-pressed", "true")

    # A drag with Shift chooses a range, which the address keeps; the browser's Back takes the zoom back.
    page.mouse.move(box["x"] + GUTTER + 100, box["y"] + 60)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(box["x"] + GUTTER + 300, box["y"] + 70, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    wait_for(page, lambda: "from=" in page.url, "the range is in the address")
    assert 600 < shown_seconds(page) < 1500, "200 pixels of an hour and 24 minutes"
    site.open(page, page.url.removeprefix(site.origin))
    expect(back).to_be_visible()
    page.go_back()
    expect(back).to_have_count(0)
    assert "from=" not in page.url
    expect(page.locator(".twin tbody tr", has_text="seen")).to_be_attached()

    # Keys go from block to block, and say each of them; Enter opens the job.
    page.locator(".timeline-frame").focus()
    spoken = page.locator(".timeline [aria-live]")
    page.keyboard.press("ArrowRight")
    expect(spoken).to_contain_text(f"job {job} seen, running")
    # A failed block says what its log says; [ and ] zoom from it to another one.
    page.keyboard.press("ArrowLeft")
    expect(spoken).to_contain_text(f"job {oom} oom, failed (exit 1: probably out of GPU memory)")
    page.keyboard.press("[")
    page.keyboard.press("ArrowRight")
    expect(spoken).to_contain_text(f"job {job} seen, running")
    page.keyboard.press("]")
    wait_for(page, lambda: "from=" in page.url and shown_seconds(page) < 120, "the range of both blocks is shown")
    page.keyboard.press(".")
    wait_for(page, lambda: "from=" not in page.url, "now is no range")
    page.keyboard.press("Enter")
    wait_for(page, lambda: page.url.endswith(f"/jobs/{job}"), "Enter opens the job")
    grass.open_gate("gate2")
    grass.until(job, "succeeded")


def test_the_line_is_moved_by_dragging_and_by_keys(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    full = grass.gated("gate3", "--gpu=4", "--name", "full")
    waiting = [grass.enqueue("--gpu=4", "--name", f"next{each}", "--", "true") for each in range(4)]
    site.open(page, "/")
    wait_for(page, lambda: line_of(page) == waiting, "the line is shown in order")
    first, second, third, last = waiting

    page.get_by_role("button", name=f"Move job {last}").focus()
    page.keyboard.press("Home")
    wait_for(page, lambda: line_of(page) == in_line(site) == [last, first, second, third], "the last is the first")
    page.get_by_role("button", name=f"Move job {first}").focus()
    page.keyboard.press("ArrowDown")
    wait_for(page, lambda: line_of(page) == in_line(site) == [last, second, first, third], "one place down")
    handle = page.get_by_role("button", name=f"Move job {third}")
    target = still_box(page, page.locator(".line .line-job").nth(1))
    handle.hover()
    page.mouse.down()
    page.mouse.move(target["x"], target["y"] + 2, steps=5)
    page.mouse.up()
    wait_for(
        page, lambda: line_of(page) == in_line(site) == [last, third, second, first], "dragged to the second place"
    )
    axe(page, "Now with a line")
    grass.ok("kill", *map(str, waiting))
    grass.open_gate("gate3")
    grass.until(full, "succeeded")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_and_a_reader_see_all_of_it_and_no_button_that_fails(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch], scheme: str
) -> None:
    grass = site.grass
    job = grass.gated(f"gate-{scheme}", "--gpu=4", "--name", "phone")
    after = grass.enqueue("--gpu=1", "--name", "after", "--", "true")
    page = contexts(PHONE, color_scheme=scheme, has_touch=True).new_page()
    watched(page)
    site.log_in(page, scope="read")
    page.get_by_role("button", name="Table").click()
    expect(page.locator(".twin tbody tr", has_text="phone").first).to_be_visible()
    wait_for(page, lambda: line_of(page) == [after], "the line is shown")
    # A reader may move nothing.
    expect(page.get_by_role("button", name="Move job")).to_have_count(0)
    fits(page)
    axe(page, f"Now on a phone, {scheme}")
    grass.open_gate(f"gate-{scheme}")
    grass.until(job, "succeeded")
    grass.until(after, "succeeded")
