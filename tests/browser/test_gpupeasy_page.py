"""GPUPeasy's four lists in the page: each job in exactly one of them, live, with the buttons its users asked for."""

from __future__ import annotations

import os

from playwright.sync_api import Page, expect
from tests.browser.browsing import Site, axe, wait_for


def test_a_job_moves_through_the_lists_and_each_button_works(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    grass("create-queue", "gpupeasy", "--gpu=1")
    running = grass.enqueue("gpupeasy", "--gpu=1", "--name", "first", "--", "sleep", "600")
    waiting = grass.enqueue("gpupeasy", "--gpu=1", "--name", "second", "--", "sleep", "600")
    site.open(page, "/gpupeasy")
    lists = {name: page.get_by_role("region", name=name) for name in ("Device Utilization", "Scheduled Jobs")}
    lists |= {name: page.get_by_role("region", name=name) for name in ("Successful Jobs", "Failed Jobs")}
    first = lists["Device Utilization"].locator("tbody tr", has_text="first")
    expect(first).to_contain_text("gpu 0")
    # The pid that the page shows is alive.
    pid = grass.until(running, "running")["pid"]
    expect(first).to_contain_text(str(pid))
    os.kill(pid, 0)
    expect(lists["Scheduled Jobs"].locator("tbody tr", has_text="second")).to_have_count(1)
    axe(page, "GPUPeasy")
    # A pause of everything is another one: the button says what it lifts.
    grass.ok("pause")
    page.get_by_role("button", name="Resume everything").click()
    page.get_by_role("button", name="Pause the scheduler").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume the scheduler")).to_be_visible()
    first.get_by_role("button", name="Kill").click()
    page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    failed = lists["Failed Jobs"].locator("tbody tr", has_text="first")
    expect(failed).to_contain_text("killed")
    expect(lists["Device Utilization"].locator("tbody tr")).to_have_count(0)
    lists["Scheduled Jobs"].get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    expect(lists["Scheduled Jobs"].locator("tbody tr")).to_have_count(0)
    assert grass.job(waiting)["state"] == "cancelled"
    failed.get_by_role("button", name="Rerun").click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun").click()
    expect(lists["Scheduled Jobs"].locator("tbody tr", has_text="first")).to_have_count(1)
    # Cleared lists are empty, and the logs stay.
    lists["Failed Jobs"].get_by_role("button", name="Clear").click()
    page.get_by_role("dialog").get_by_role("button", name="Clean").click()
    expect(lists["Failed Jobs"].locator("tbody tr")).to_have_count(0)
    wait_for(page, (grass.home / "kept" / str(running) / "1" / "log").exists, "the log is kept")
    # What is added here goes to this queue, not to the default one.
    page.get_by_role("link", name="Add jobs").click()
    expect(page.get_by_label("Queue")).to_have_value("gpupeasy")
