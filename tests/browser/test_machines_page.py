"""The screen Machines: workers, what they have, their devices with who holds them, and what an admin does with them."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Locator, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits


def tile(page: Page, name: str) -> Locator:
    """The tile of a device."""
    return page.locator(".tile", has=page.locator("strong", has_text=name))


def test_devices_show_who_holds_them_and_are_drained_added_and_removed(
    site: Site, watched_page: Page, page_watch: PageWatch
) -> None:
    page, grass = watched_page, site.grass
    site.open(page, "/machines")
    worker = page.get_by_role("region", name="Worker")
    expect(worker).to_contain_text("online")
    expect(worker.locator(".gauge", has_text="cpu")).to_contain_text("0 / 8")
    expect(page.locator(".tile")).to_have_count(4)
    expect(tile(page, "gpu 0")).to_contain_text("free")

    # Two jobs share a device, and the tile follows.
    halves = [grass.gated("gate", "--gpu=0.5", "--name", "half") for _ in range(2)]
    expect(tile(page, "gpu 0").locator("a")).to_have_text([f"{job} half" for job in halves])
    expect(tile(page, "gpu 0")).to_contain_text("in use")
    axe(page, "Machines")

    # A drained device gets no more jobs; the question says what happens to those that run.
    tile(page, "gpu 0").get_by_role("button", name="Drain").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 jobs on it finish first")
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(tile(page, "gpu 0").locator(".flag")).to_have_text("drained")
    tile(page, "gpu 0").get_by_role("button", name="Undrain").click()
    expect(tile(page, "gpu 0").locator(".flag")).to_have_count(0)

    # Devices come and go while jobs run; a busy one leaves when its jobs have ended.
    page.get_by_role("button", name="Add devices").click()
    expect(page.get_by_role("dialog").get_by_label("Ids")).to_have_value("4")
    axe(page, "the dialog of new devices")
    # A refusal is told in the dialog: behind it a message would be dim.
    page_watch.expected.append("status of 400")
    page.get_by_role("dialog").get_by_label("Ids").fill("9-4")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("runs backwards; write 4-9")
    expect(page.locator(".toast.refused")).to_have_count(0)
    page.get_by_role("dialog").get_by_label("Ids").fill("4")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".tile")).to_have_count(5)
    tile(page, "gpu 4").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("dialog")).to_contain_text("gone at once")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".tile")).to_have_count(4)
    tile(page, "gpu 0").get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(tile(page, "gpu 0").locator(".flag")).to_have_text("leaving")
    grass.open_gate("gate")
    expect(page.locator(".tile")).to_have_count(3)
    for job in halves:
        assert grass.until(job, "succeeded")["outcome"] == "exited"


def test_a_worker_is_drained_and_a_machine_over_ssh_is_added_by_a_command(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    site.open(page, "/machines")
    worker = page.get_by_role("region", name="Worker")
    worker.locator(".worker-buttons").get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(worker.locator(".worker-head .flag")).to_have_text("drained")
    # Its devices are drained with it, and none of them can be undrained alone.
    expect(worker.locator(".tile").get_by_role("button", name="Undrain")).to_have_count(0)
    job = grass.enqueue("--", "true")
    assert grass.job(job)["state"] == "queued"
    worker.locator(".worker-buttons").get_by_role("button", name="Undrain").click()
    grass.until(job, "succeeded")

    page.get_by_role("button", name="Add a machine").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("lab3")
    dialog.get_by_label("Login").fill("me@lab3")
    expect(dialog.locator(".preview").first).to_contain_text("grass machine add lab3 me@lab3")
    axe(page, "the dialog of a new machine")


def test_a_reader_on_a_phone_sees_the_machines_and_no_button_that_fails(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page = contexts(PHONE, color_scheme="dark").new_page()
    watched(page)
    site.log_in(page, scope="read", path="/machines")
    expect(page.locator(".tile").first).to_be_visible()
    expect(page.locator("main").get_by_role("button")).to_have_count(0)
    fits(page)
    axe(page, "Machines on a phone")
