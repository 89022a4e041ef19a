"""The log view: what a terminal would show, live, at any place, searched as a whole, and never obeyed."""

from __future__ import annotations

import re
import sys

import pytest
from playwright.sync_api import Page, expect
from tests.browser.browsing import Site, axe, measure, press_both, wait_for

LINES = 20_000
#: Writes many lines, hostile ones, a long one and a bar; then goes on when a file is there.
PROGRAM = r"""
import os, sys, time
for number in range(1, 20001):
    print(f"\x1b[32mINFO\x1b[0m step {number} \x1b[38;2;255;128;0mloss\x1b[0m={1 / number:.6f}")
print("<img src=x onerror=document.title='hacked'><script>alert(1)</script>")
print("a\x1b]8;;http://evil.example/\x1b\\link\x1b]8;;\x1b\\ \x1b]52;c;aGVsbG8=\x07 \u202ertl \x1b]0;title\x07end")
print("y" * 25000)
for percent in range(0, 101, 2):
    sys.stdout.write(f"\repoch {percent}%")
print(flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
for number in range(1, 301):
    print("more", number, flush=True)
print("the last line", flush=True)
"""


@pytest.fixture(scope="module")
def job(site: Site) -> int:
    """A job that has written its first lines and waits for the file `go`."""
    site.grass.write("noisy.py", PROGRAM)
    id_ = site.grass.enqueue("--name", "noisy", "--", sys.executable, "noisy.py")
    site.grass.until(id_, "running")
    return id_


def texts(page: Page) -> list[str]:
    """The texts of the lines that are drawn."""
    return page.locator(".log-row .log-text").all_inner_texts()


def test_a_log_is_shown_searched_and_followed(site: Site, job: int, watched_page: Page) -> None:
    page = watched_page
    site.open(page, f"/jobs/{job}")

    # The end is shown: bars are folded, styles are classes, hostile text is text.
    last = page.locator(".log-row").last
    expect(last).to_contain_text("epoch 100%")
    expect(last).to_contain_text("50 updates folded")
    expect(page.locator(".log-pane")).to_contain_text("<img src=x onerror=")
    assert page.locator(".log-pane img, .log-pane script, .log-text a").count() == 0
    wait_for(page, lambda: page.title() == f"{job} noisy running · Grass", "the title of the tab")
    assert page.locator(".log-row .fg-2").first.inner_text() == "INFO"

    # A long line is cut, and shown whole when that is asked for.
    page.get_by_role("button", name="more characters, show all").click()
    whole = page.locator(".log-whole")
    wait_for(page, lambda: len(whole.inner_text()) == 25_000, "the whole line is shown")
    page.get_by_role("button", name="Close", exact=True).click()

    # The whole log is searched, from what is visible on and then backwards; the count is exact, and hits are marked.
    page.keyboard.press("/")
    page.get_by_label("Search the log").fill("STEP 1234")
    expect(page.locator(".log-found")).to_have_text("11 of 11")
    expect(page.locator(".log-row.current")).to_contain_text("step 12349 ")
    expect(page.locator(".log-row.current mark")).to_have_text("step 1234")
    page.keyboard.press("Enter")
    expect(page.locator(".log-row.current")).to_contain_text("step 1234 ")
    expect(page.locator(".log-found")).to_have_text("1 of 11")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".log-row.current")).to_contain_text("step 12349 ")
    page.get_by_role("button", name=".*", exact=True).click()
    page.get_by_label("Search the log").fill(r"step 199\d\d ")
    expect(page.locator(".log-found")).to_have_text("1 of 100")
    axe(page)
    page.keyboard.press("Escape")

    # Any line has a link, and a range of lines is copied as a whole.
    page.goto(f"{site.origin}/jobs/{job}#L10000")
    expect(page.locator(".log-row.marked")).to_contain_text("step 10000 ")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".log-number", has_text=re.compile("^10001$")).click()
    page.locator(".log-number", has_text=re.compile("^10009$")).click(modifiers=["Shift"])
    wait_for(page, lambda: page.url.endswith("#L10001-L10009"), "the lines are in the address")
    page.get_by_role("button", name="Copy lines").click()
    page.get_by_text("9 lines copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert [line.split()[2] for line in copied] == [str(number) for number in range(10001, 10010)]

    # While somebody looks elsewhere the view stays; the end can be followed again.
    wait_for(page, lambda: all(texts(page)), "every line that is drawn has come")
    before = texts(page)
    (site.grass.cwd / "go").touch()
    site.grass.until(job, "succeeded")
    page.get_by_role("button", name="301 new lines").wait_for()
    assert texts(page) == before
    page.get_by_role("button", name="Jump to end").click()
    expect(page.locator(".log-row").last).to_contain_text("the last line")
    assert measure(page)["elements"] < 3_000

    # Broken lines have their own heights, and the end is still the end.
    page.keyboard.press("w")
    expect(page.locator(".log-pane.wraps .log-row").last).to_be_in_viewport()
    press_both(page, "g", "g", page.locator(".log-row", has_text="step 1 ").first)
    page.keyboard.press("w")

    # The download is the log, byte for byte.
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == site.grass.program("grass", "log", str(job)).out.encode("utf-8")


def test_a_split_job_has_two_streams_and_every_attempt_has_a_log(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    script = 'echo "attempt $GRASS_ATTEMPT"; echo "oh no" >&2; exit 1'
    job = grass.enqueue("--split", "--tries", "2", "--", "sh", "-c", script)
    grass.until(job, "failed")
    site.open(page, f"/jobs/{job}")
    expect(page.locator(".log-row").last).to_contain_text("attempt")
    page.get_by_role("button", name="stderr").click()
    expect(page.locator(".log-row").last).to_have_text(re.compile("oh no"))
    page.get_by_label("The attempt whose log is shown").select_option("1")
    wait_for(page, lambda: "attempt=1" in page.url, "the attempt is in the address")
    expect(page.locator(".log-row").last).to_have_text(re.compile("oh no"))
