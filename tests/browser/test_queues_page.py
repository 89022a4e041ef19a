"""The screen Queues: what waits and runs, limits, pauses, new and deleted queues, and the order of the next jobs."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Locator, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits, wait_for


def queue(page: Page, name: str) -> Locator:
    """The part of the screen that is about one queue."""
    return page.get_by_role("region", name=f"Queue {name}", exact=True)


def line_of(place: Locator) -> list[int]:
    """The ids of the next jobs of a queue, as they are shown."""
    return [int(text) for text in place.locator(".head-row > a").all_inner_texts()]


def in_line(site: Site, name: str) -> list[int]:
    """The ids of the next jobs of a queue, as the daemon has them."""
    with site.grass.client() as client:
        return [job["id"] for job in client.get("line", queue=name)["jobs"]]


def test_a_queue_is_made_paused_moved_resumed_and_deleted(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    site.open(page, "/queues")
    expect(queue(page, "default")).to_contain_text("no limits")
    assert queue(page, "default").get_by_role("button", name="Delete").count() == 0, "it always exists"

    # A dialog makes a queue, and shows the command that does the same.
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("train")
    dialog.get_by_label("Limit of GPUs").fill("2")
    dialog.get_by_label("First words of every command").fill('sh -c \'exec "$0" "$@"\'')
    expect(dialog.locator(".preview")).to_contain_text("grass create-queue train --gpu=2 --worker")
    axe(page, "the dialog of a new queue")
    dialog.get_by_role("button", name="Make the queue").click()
    expect(queue(page, "train")).to_contain_text("0 / 2")
    assert grass.queue("train")["prefix"] == ["sh", "-c", 'exec "$0" "$@"']

    # What runs and waits is live, and gauges follow.
    running = grass.gated("gate", "--queue", "train", "--gpu=2")
    waiting = [grass.enqueue("--queue", "train", "--gpu=1", "--", "true") for _ in range(3)]
    expect(queue(page, "train")).to_contain_text("3 waiting")
    expect(queue(page, "train")).to_contain_text("1 running")
    expect(queue(page, "train")).to_contain_text("2 / 2")

    # The next jobs are moved by buttons and by keys.
    place = queue(page, "train")
    place.get_by_role("button", name="train").click()
    wait_for(page, lambda: line_of(place) == waiting, "the line of the queue")
    first, second, third = waiting
    place.get_by_role("button", name=f"Move job {third} to the front").click()
    wait_for(page, lambda: line_of(place) == in_line(site, "train") == [third, first, second], "the last is the first")
    place.get_by_role("button", name=f"Move job {third}, now at place 1").focus()
    page.keyboard.press("ArrowDown")
    wait_for(page, lambda: line_of(place) == in_line(site, "train") == [first, third, second], "one place down")
    axe(page, "Queues")

    # A pause is asked about first, and names who paused.
    place.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(place.locator(".queue-paused")).to_contain_text("paused by")
    assert grass.queue("train")["paused"]
    place.get_by_role("button", name="Resume").click()
    expect(place.locator(".queue-paused")).to_have_count(0)
    page.get_by_role("button", name="Pause everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".note")).to_contain_text("Everything is paused")
    page.get_by_role("button", name="Resume everything").click()
    expect(page.locator(".note")).to_have_count(0)

    # A limit of a group: set, seen, and removed.
    page.get_by_role("button", name="New limit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Group").fill("tag:team=<i>a")
    dialog.get_by_label("Holds at most").fill("gpu=2 jobs=3")
    expect(dialog.locator(".preview")).to_contain_text("gpu=2 jobs=3")
    dialog.get_by_role("button", name="Set the limit").click()
    limits = page.get_by_role("region", name="Limits of groups")
    expect(limits).to_contain_text("tag:team=<i>a")
    expect(limits).to_contain_text("gpu 0 of 2, 0 of 3 jobs")
    limits.get_by_role("button", name="Remove the limit of").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(limits).to_contain_text("No group has a limit")
    assert grass.json("limit")["limits"] == []

    grass.open_gate("gate")
    for job in (running, *waiting):
        grass.until(job, "succeeded")
    expect(place).to_contain_text("0 running")
    place.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("no unfinished jobs")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(place).to_have_count(0)


def test_a_reader_on_a_phone_sees_the_queues_and_no_button_that_fails(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page = contexts(PHONE, color_scheme="dark").new_page()
    watched(page)
    site.log_in(page, scope="read", path="/queues")
    expect(queue(page, "default")).to_be_visible()
    buttons = page.locator("main").get_by_role("button")
    wait_for(page, lambda: buttons.all_inner_texts() == ["▸default"], "one button, which unfolds")
    fits(page)
    axe(page, "Queues on a phone")
