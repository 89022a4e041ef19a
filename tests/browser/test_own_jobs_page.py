"""What a session is offered: on its own jobs what the daemon allows, on jobs of others nothing; a palette by scope."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits, wait_for
from tests.browser.test_now_page import in_line, line_of

SUBMIT = """async (name) => {
  const key = crypto.randomUUID().replaceAll("-", "");
  const jobs = [{ queue: "train", command: ["x"], request: { gpu: 4 }, name }];
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("/v1/submit", { method: "POST", headers, body: JSON.stringify({ jobs, key }) });
  return (await answer.json()).ids[0];
}"""


def test_a_submit_session_is_offered_its_own_jobs_only(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    grass = site.grass
    page = contexts().new_page()
    # A refusal is a complaint of the browser, and fails the test. A job that is removed may be asked for once more.
    watched(page).expected.append("status of 404")
    site.log_in(page, scope="submit")
    # A queue with a command of its own: the session may not run any program.
    grass.ok("create-queue", "train", "true")
    full = grass.gated("gate", "--gpu=4", "--name", "full")
    theirs = grass.enqueue("--queue", "train", "--gpu=4", "--name", "theirs", "--", "x")
    first, second = page.evaluate(SUBMIT, "mine"), page.evaluate(SUBMIT, "mine")
    other = grass.enqueue("--queue", "train", "--gpu=4", "--name", "theirs", "--", "x")
    third = page.evaluate(SUBMIT, "mine")
    mine = [first, second, third]
    wait_for(page, lambda: line_of(page) == [theirs, first, second, other, third], "the line is shown")

    # In the line: handles on its own jobs, which pass no job of others on the way up.
    handles = page.get_by_role("button", name="Move job")
    expect(handles).to_have_count(3)
    for job, key in ((second, "Home"), (third, "ArrowUp")):
        page.get_by_role("button", name=f"Move job {job}").focus()
        page.keyboard.press(key)
    page.get_by_role("button", name=f"Move job {second}").focus()
    page.keyboard.press("ArrowUp")
    wait_for(page, lambda: line_of(page) == in_line(site) == [theirs, second, first, other, third], "one place up")
    target = page.locator(".line .line-job").nth(4).bounding_box()
    assert target is not None
    page.get_by_role("button", name=f"Move job {second}").hover()
    page.mouse.down()
    page.mouse.move(target["x"], target["y"] - 2, steps=5)
    page.mouse.up()
    wait_for(page, lambda: line_of(page) == in_line(site) == [theirs, first, other, second, third], "down past others")

    # In the queue: nothing that may pass jobs of other queues.
    site.open(page, "/queues")
    page.get_by_role("button", name="train").click()
    expect(page.get_by_role("button", name=f"Move job {first} to the end")).to_be_visible()
    expect(page.get_by_role("button", name="to the end")).to_have_count(3)
    expect(page.get_by_role("button", name="to the front")).to_have_count(0)

    # In the table: boxes on its own jobs, and words where all are selected.
    site.open(page, "/jobs?q=state:queued&order=asc&sort=id")
    boxes = page.get_by_role("checkbox", name="Select job")
    expect(page.locator(".row")).to_have_count(5)
    expect(boxes).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("K")
    expect(page.get_by_text(f"job {theirs} was submitted by somebody else")).to_be_visible()
    assert page.get_by_role("dialog").count() == 0
    page.get_by_label("Select all that match").check()
    expect(page.get_by_text("5 jobs selected; only yours are changed")).to_be_visible()
    expect(page.locator(".row.selected")).to_have_count(3)
    page.get_by_role("button", name="Kill", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This would kill 3 jobs")
    expect(dialog).to_contain_text("2 jobs submitted by others")
    axe(page, "the dialog of a submit session")
    dialog.get_by_role("button", name="Kill 3 jobs").click()
    expect(page.get_by_text("3 jobs killed")).to_be_visible()
    assert [grass.job(job)["state"] for job in [*mine, theirs, other]] == ["cancelled"] * 3 + ["queued"] * 2

    # On the page of a job of somebody else: words, and no button.
    site.open(page, f"/jobs/{theirs}")
    expect(page.get_by_text("by owner; this session changes its own jobs only")).to_be_visible()
    actions = page.locator(".job-actions")
    expect(actions.get_by_role("button")).to_have_text(["More ▾"])
    actions.get_by_role("button", name="More").click()
    expect(actions.locator(".menu-list")).not_to_contain_text("Move")
    expect(actions.locator(".menu-list")).not_to_contain_text("Remove")
    expect(actions.get_by_role("link", name="Submit another like it")).to_be_visible()

    # Its own job is removed, and the log stays.
    site.open(page, f"/jobs/{first}")
    expect(actions.get_by_role("button", name="Rerun", exact=True)).to_be_visible()
    actions.get_by_role("button", name="More").click()
    actions.get_by_role("button", name="Remove the job, keep its logs").click()
    dialog.get_by_role("button", name="Clean 1 job, keep logs").click()
    page.wait_for_url("**/jobs")
    assert first not in [job["id"] for job in grass.jobs()]

    # The palette changes no queue and no machine.
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("e")
    expect(page.get_by_role("option").first).to_be_visible()
    assert not [words for words in page.get_by_role("option").all_inner_texts() if words.startswith(("Pause", "Drain"))]
    grass.open_gate("gate")
    grass.until(full, "succeeded")


#: Chooses an entry of the open palette and opens the palette again before the browser tells of the end of the first.
REOPEN = """async () => {
  const press = (target, key, more) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  press(document.querySelector(".palette-input"), "Enter");
  for (let turn = 0; turn < 1000 && document.querySelector("dialog"); turn++) await Promise.resolve();
  press(document, "k", { ctrlKey: true });
  await new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done))));
  return document.querySelectorAll(".palette-input").length;
}"""


def test_a_palette_that_is_opened_right_after_another_has_ended_stays(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page = contexts().new_page()
    watched(page)
    site.log_in(page)
    page.keyboard.press("Control+k")
    expect(page.locator(".palette-input")).to_be_visible()
    assert page.evaluate(REOPEN) == 1
    page.keyboard.press("Escape")
    expect(page.locator(".palette-input")).to_have_count(0)


def test_the_palette_pauses_queues_and_drains_machines(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    page, grass = contexts(PHONE).new_page(), site.grass
    watched(page)
    site.log_in(page)

    def choose(words: str, entry: str, answer: str | None = None) -> None:
        page.keyboard.press("Control+k")
        page.locator(".palette-input").fill(words)
        option = page.get_by_role("option", name=entry)
        expect(option).to_have_count(1)
        while option.get_attribute("aria-selected") != "true":
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        if answer:
            page.get_by_role("dialog").get_by_role("button", name=answer).click()

    def shown() -> dict[str, bool]:
        told = grass.json("show")
        queue = next(each for each in told["queues"] if each["name"] == "default")
        return {"paused": queue["paused"], "drained": told["workers"][0]["drained"]}

    fits(page)
    choose("pause default", "Pause queue default", "Pause")
    wait_for(page, lambda: shown()["paused"], "the queue is paused")
    choose("resume", "Resume queue default")
    wait_for(page, lambda: not shown()["paused"], "the queue is resumed")
    choose("drain worker", "Drain worker", "Drain")
    wait_for(page, lambda: shown()["drained"], "the worker is drained")
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("drain gpu")
    expect(page.get_by_role("option", name="gpu")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    choose("undrain worker", "Undrain worker")
    wait_for(page, lambda: not shown()["drained"], "the worker works again")
    with page.expect_response("**/v1/devices/drain"):
        choose("drain gpu 1", "Drain gpu 1", "Drain")
    site.open(page, "/machines")
    tile = page.locator(".tile", has=page.get_by_text("gpu 1", exact=True))
    expect(tile.locator(".flag")).to_have_text("drained")
    choose("undrain gpu", "Undrain gpu 1")
    expect(tile.locator(".flag")).to_have_count(0)
    axe(page, "Machines")
