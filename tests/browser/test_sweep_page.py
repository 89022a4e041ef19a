"""The screens about sweeps: a table of parameters and results, pictures joined by brushes, and the best."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.browser.browsing import PHONE, Site, axe, fits, still_box, wait_for

WRITES = 'echo "{{\\"score\\": $(({lr} * {bs})), \\"note\\": {{\\"loss\\": 0.{bs}}}}}" > $GRASS_RESULT_FILE'


def make_sweep(site: Site, name: str = "s1") -> None:
    """Run a sweep of six jobs, each with a result, and one more job of its name that fails."""
    site.grass("sweep", WRITES, "-p", "lr", "1", "2", "3", "-p", "bs", "4", "8", "--gpu=0.5", "--name", name)
    site.grass("wait", f"name:{name}")


def test_the_table_the_best_and_the_pictures(site: Site, watched_page: Page) -> None:
    page = watched_page
    site.open(page, "/sweeps")
    expect(page.get_by_text("No sweep yet")).to_be_visible()
    make_sweep(site)
    # Live: nobody reloads the page.
    page.get_by_role("link", name="s1").click()
    page.wait_for_url("**/sweeps/sweep:1")
    table = page.locator(".sweep-table")
    expect(table.locator("tbody tr")).to_have_count(6)

    def heads() -> list[str]:
        return [text.strip(" ↑↓") for text in table.locator("th").all_inner_texts()]

    wait_for(page, lambda: {"lr", "bs", "score", "note.loss"} <= set(heads()), "a column for each value")
    page.get_by_label("Result").select_option("score")
    page.get_by_label("Best is").select_option("high")
    expect(page.locator(".best")).to_contain_text("24")
    # Sorted by the result, the best first; another click on a head turns the order round.
    score = heads().index("score") + 1
    cells = table.locator(f"tbody tr td:nth-child({score})")
    wait_for(page, lambda: cells.all_inner_texts() == ["24", "16", "12", "8", "8", "4"], "the best is the first")
    # A brush on the first axis keeps some rows in the table and in the plots.
    box = still_box(page, page.locator("canvas.parallel"))
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 30)
    page.mouse.up()
    expect(page.get_by_role("button", name=re.compile("clear the brushes"))).to_be_visible()
    wait_for(page, lambda: 0 < table.locator("tbody tr").count() < 6, "some rows are kept")
    page.get_by_role("button", name=re.compile("clear the brushes")).click()
    expect(table.locator("tbody tr")).to_have_count(6)
    table.get_by_role("button", name="score").click()
    wait_for(page, lambda: cells.all_inner_texts()[:1] == ["4"], "the order turned round")
    expect(page.locator(".best-plot canvas")).to_be_visible()
    axe(page, "Sweep")
    page.emulate_media(color_scheme="dark")
    axe(page, "Sweep, dark")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    fits(page)

    # What is done to a sweep is done to the object: the jobs of another with the same name stay.
    site.grass(
        "sweep", "sleep 600 {x}", "-p", "x", "1", "2", "--name", "s1", "--at-once", "1", "--sampling-mode", "grid"
    )
    site.open(page, "/sweeps")
    expect(page.get_by_role("row").filter(has_text="s1")).to_have_count(2)
    page.get_by_role("row").filter(has_text="1 at once").get_by_role("link").click()
    site.grass.until(7, "running")
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Suspend", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    wait_for(page, lambda: site.grass.job(7)["suspended"] == "kept", "the running job of the sweep is suspended")
    page.get_by_role("button", name="Kill").click()
    page.get_by_role("dialog").get_by_role("button", name="Kill 2 jobs").click()
    wait_for(page, lambda: site.grass.job(7)["state"] == "cancelled", "the sweep is killed")
    assert site.grass.job(1)["state"] == "succeeded"


def test_hostile_names_and_values_stay_text(site: Site, watched_page: Page) -> None:
    page = watched_page
    evil = "<img src=x onerror=alert(1)>"
    for value in (evil, "plain"):
        site.grass("enqueue", "--name", "evil", "--", "echo", "--tag", value)
    site.grass("wait", "name:evil")
    site.open(page, "/sweeps/evil")
    expect(page.get_by_text(evil).first).to_be_visible()
    assert page.locator("img[src='x']").count() == 0
