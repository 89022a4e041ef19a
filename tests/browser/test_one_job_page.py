"""The screen Job: why it waits, how it ends, what happened, and every action, by mouse and by keys."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits, wait_for


def test_a_job_from_the_line_to_its_end(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    first = grass.gated("first", "--gpu=3", "--name", "blocker")
    grass.until(first, "running")
    job = grass.gated("second", "--gpu=2", "--name", "patient", "--env", "LR=0.1", "--project", "vision")
    site.open(page, f"/jobs/{job}")
    heading = page.locator("h1")
    expect(heading).to_contain_text("queued")
    expect(heading).to_contain_text("patient")

    # It says what it waits for, and links to it.
    expect(page.locator(".job-why").first).to_contain_text("gpu 2 needed, 1 free")
    expect(page.get_by_role("link", name=f"job {first}")).to_have_attribute("href", f"/jobs/{first}")
    expect(page.get_by_text("This job has not started")).to_be_visible()

    # It is held and released by a key, and edited while it waits.
    page.keyboard.press("H")
    page.get_by_role("dialog").get_by_role("button", name="Hold 1 job").click()
    expect(heading).to_contain_text("held")
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("priority").fill("77")
    dialog.get_by_label(re.compile("^require")).fill("gpu=1 cpu=2")
    axe(page, "the dialog of an edit")
    dialog.get_by_role("button", name="Save").click()
    wait_for(page, lambda: grass.job(job)["priority"] == 77, "the job is edited")
    assert grass.job(job)["request"] == {"gpu": 1, "cpu": 2}
    page.get_by_role("button", name="Release", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Release 1 job").click()
    expect(heading).to_contain_text("running")
    expect(page.locator(".job-why").first).to_contain_text("Has run for")
    expect(page.locator(".job-facts")).to_contain_text("gpu 3")

    # Everything that is known of it, and what happened.
    page.get_by_role("tab", name="Details").click()
    details = page.get_by_role("tabpanel")
    for words in ("LR", "0.1", "vision", str(grass.cwd)):
        expect(details).to_contain_text(words)
    axe(page, "the details")
    page.get_by_role("tab", name="Details").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Story")).to_have_attribute("aria-selected", "true")
    expect(details).to_contain_text("attempt 1")
    expect(details).to_contain_text("edited")
    page.keyboard.press("K")
    page.get_by_role("dialog").get_by_role("button", name="Kill 1 job").click()
    expect(heading).to_contain_text("cancelled")
    grass.open_gate("first")

    # Run again: the new job links back.
    page.get_by_role("button", name="Rerun", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun 1 job").click()
    again = wait_for(page, lambda: [each["id"] for each in grass.jobs() if each["rerun_of"] == job], "it runs again")[0]
    site.open(page, f"/jobs/{again}")
    expect(page.get_by_role("link", name=str(job), exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Rerun with edits")).to_have_count(0)
    grass.open_gate("second")
    expect(heading).to_contain_text("succeeded")
    expect(page.get_by_role("link", name="Rerun with edits")).to_have_attribute("href", f"/new?from={again}")


def test_a_failure_is_seen_without_a_click(
    site: Site,
    page_watch: PageWatch,
    watched_page: Page,
    contexts: Callable[..., BrowserContext],
    watched: Callable[[Page], PageWatch],
) -> None:
    page, grass = watched_page, site.grass
    # The job that is removed may be asked for once more before the page hears of it.
    page_watch.expected.append("status of 404")
    program = "import sys; print('step 1'); sys.exit('RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB')"
    job = grass.enqueue("--", sys.executable, "-c", program)
    grass.until(job, "failed")
    site.open(page, f"/jobinfo/{job}")
    expect(page.locator("h1")).to_contain_text("failed")
    expect(page.locator(".problem")).to_contain_text("memory")
    expect(page.locator(".log-row").last).to_be_in_viewport()
    expect(page.locator(".log-row").last).to_contain_text("2.00 GiB")
    axe(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as CLI").click()
    page.get_by_text("copied: it submits").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("grass enqueue ")

    # Removed: the page of a job that is gone says so.
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Remove the job and its files").click()
    page.get_by_role("dialog").get_by_role("button", name="Clean 1 job").click()
    page.wait_for_url("**/jobs")
    left = grass.enqueue("--", "sh", "-c", "exit 1")
    grass.until(left, "failed")

    # A phone that may only read: nothing is wider than the window, and no button would be refused.
    phone = contexts(PHONE, color_scheme="dark").new_page()
    watched(phone)
    site.log_in(phone, "read", f"/jobs/{left}")
    expect(phone.locator("h1")).to_contain_text("failed")
    fits(phone)
    expect(phone.get_by_role("button", name=re.compile("Rerun|Kill|Hold|Edit"))).to_have_count(0)
    axe(phone, "on a phone")
