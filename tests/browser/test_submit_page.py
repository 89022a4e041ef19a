"""The screen Submit: commands, grids and batches; it says what would run, and where, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect
from tests.browser.browsing import PHONE, PageWatch, Site, axe, fits


def test_a_command_is_previewed_placed_and_submitted(site: Site, watched_page: Page) -> None:
    page = watched_page
    site.open(page, "/new")
    page.get_by_label("Command; each line").fill("sleep 0.1")
    page.get_by_label("GPU").fill("0.5")
    page.get_by_label("Name", exact=True).fill("nap")
    # The form offers the directory in which `grass web` was typed.
    where = page.get_by_label("Directory")
    expect(where).to_have_value(str(site.grass.cwd))
    page.get_by_text("More options").click()
    page.get_by_label("Tries").fill("2")
    page.get_by_label("Tries").fill("")
    page.get_by_label("Environment").fill("A=1")
    # What will run, as it would be typed; and the daemon's own plan for it.
    expect(page.locator(".command-preview code")).to_have_text(
        f"grass enqueue --gpu=0.5 --name nap --cwd {site.grass.cwd} --env A=1 -- sleep 0.1"
    )
    expect(page.get_by_text("It would start now: gpu")).to_be_visible()
    axe(page, "Submit")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/*")
    job = site.grass.json("show", page.url.rsplit("/", 1)[1])["jobs"][0]
    assert (job["name"], job["request"], job["command"]) == ("nap", {"gpu": 0.5}, ["sleep", "0.1"])
    assert job["cwd"] == str(site.grass.cwd)


def test_a_job_that_runs_again_keeps_what_was_not_edited(site: Site, watched_page: Page) -> None:
    page, grass = watched_page, site.grass
    words = ["--name", "again", "--split", "--tries", "2", "--require", "{cpu: 2}", "--env", "A=1"]
    job = grass.enqueue(*words, "--", "sh", "-c", "# a remark\necho one\necho two")
    grass.until(job, "succeeded")
    site.open(page, f"/new?from={job}")
    expect(page.get_by_label("Command", exact=True)).to_have_value("sh -c '# a remark\necho one\necho two'")
    expect(page.get_by_text(f"This runs job {job} again")).to_be_visible()
    expect(page.get_by_text("As it was")).to_contain_text("split")
    page.get_by_label("CPU").fill("1")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/jobs/*")
    again = grass.job(int(page.url.rsplit("/", 1)[1]))
    assert again["rerun_of"] == job
    assert again["request"] == {"cpu": 1}
    assert again["command"] == grass.job(job)["command"]
    with grass.client() as client:
        was, is_ = (client.get(f"jobs/{each}/submission")["body"] for each in (job, again["id"]))
    assert is_ == {**was, "request": {"cpu": 1}}, "split, tries and environment stay"

    # The menu leads to a form for a new job.
    site.open(page, f"/new?from={job}")
    expect(page.get_by_text(f"This runs job {job} again")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Submit").click()
    expect(page.get_by_label("Command; each line")).to_have_value("")


def test_what_can_never_fit_is_said_while_typing(site: Site, page_watch: PageWatch, watched_page: Page) -> None:
    page = watched_page
    page_watch.expected.append("status of 409")
    jobs = [job["id"] for job in site.grass.jobs()]
    site.open(page, "/new")
    page.get_by_label("Command; each line").fill("sleep 1")
    page.get_by_label("GPU").fill("99")
    expect(page.locator(".refused-preview")).to_contain_text("gpu")
    page.get_by_label("Command; each line").fill("sleep 1\nsleep 2")
    expect(page.get_by_role("button", name="Submit 2 jobs")).to_be_visible()
    expect(page.locator(".refused-preview")).to_contain_text("gpu")
    assert [job["id"] for job in site.grass.jobs()] == jobs, "nothing was stored"


def test_a_grid_becomes_a_sweep_with_parameters(site: Site, page_watch: PageWatch, watched_page: Page) -> None:
    page = watched_page
    # The daemon is asked while people type, and refuses what is not whole yet.
    page_watch.expected.append("status of 400")
    site.open(page, "/new?mode=grid")
    page.get_by_label("Command, with {name}").fill("echo {lr} {bs} on {gpu}")
    page.get_by_label("Values of parameter 1").fill("0.1 0.01")
    expect(page.get_by_text("no values for bs")).to_be_visible()
    page.get_by_role("button", name="Add a parameter").click()
    page.get_by_label("Name of parameter 2").fill("bs")
    page.get_by_label("Values of parameter 2").fill("1..3")
    page.get_by_label("GPU").fill("0.5")
    page.get_by_label("Name", exact=True).fill("grid")
    expect(page.locator(".grid-preview li")).to_have_count(6)
    page.get_by_role("button", name="Submit 6 jobs").click()
    page.wait_for_url("**/jobs?q=*")
    site.grass("wait", "name:grid")
    jobs = site.grass.json("show", "name:grid")["jobs"]
    assert sorted(job["parameters"]["lr"] + " " + job["parameters"]["bs"] for job in jobs) == sorted(
        f"{lr} {bs}" for lr in ("0.1", "0.01") for bs in (1, 2, 3)
    )
    assert all("on" in job["command"] and job["state"] == "succeeded" for job in jobs)


def test_a_batch_is_checked_whole_before_it_is_submitted(site: Site, page_watch: PageWatch, watched_page: Page) -> None:
    page = watched_page
    page_watch.expected.append("status of 400")
    site.grass("create-queue", "gpupeasy", "--gpu=1")
    site.open(page, "/batchaddjobs")
    batch = page.get_by_label("NAME;;OUTFILE;;COMMAND")
    batch.fill("one;;out/one.txt;;echo 1;;;\nbroken;;out/two.txt;;;")
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_role("button", name="Submit", exact=False).last).to_be_disabled()
    batch.fill(f"one;;{site.grass.cwd}/out/one.txt;;echo 1;;;\ntwo;;{site.grass.cwd}/out/two.txt;;echo 2;;;")
    page.get_by_role("button", name="Submit 2 jobs").click()
    page.wait_for_url("**/jobs?q=*")
    site.grass("wait", "name:one", "name:two")
    assert (site.grass.cwd / "out" / "two.txt").read_text() == "2\n"


def test_a_reader_and_a_phone(
    site: Site, contexts: Callable[..., BrowserContext], watched: Callable[[Page], PageWatch]
) -> None:
    context = contexts(size=PHONE)
    page = context.new_page()
    watched(page)
    site.log_in(page, scope="read", path="/new")
    expect(page.get_by_text("may look, and not submit")).to_be_visible()
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)
    expect(page.get_by_text("Read-only")).to_be_visible()
    context.clear_cookies()
    site.log_in(page, path="/new?mode=grid")
    fits(page)
