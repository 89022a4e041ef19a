"""The screen Submit: commands, arrays, lists, sweeps and batches; it says what would run before anything is stored."""

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


def test_arrays_lists_and_sweeps_are_tried_and_become_sweeps(
    site: Site, page_watch: PageWatch, watched_page: Page
) -> None:
    page, grass = watched_page, site.grass
    # The daemon is asked while people type, and refuses what is not whole yet.
    page_watch.expected.append("status of 400")
    before = [job["id"] for job in grass.jobs()]
    site.open(page, "/new?mode=grid")
    page.get_by_label("Command, with {name}").fill("echo {lr} {bs} on {{gpu}}")
    page.get_by_label("Values of parameter 1").fill("log:0.01..1:3")
    expect(page.get_by_role("alert")).to_contain_text("{bs} has no values")
    page.get_by_role("button", name="Add a parameter").click()
    page.get_by_label("Name of parameter 2").fill("bs")
    page.get_by_label("Values of parameter 2").fill("8..")
    expect(page.get_by_role("alert")).to_contain_text("parameter 'bs': the range '8..' cannot be read: it has no end")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    page.get_by_label("Values of parameter 2").fill("8..32*2")
    page.get_by_label("Leave out").fill("lr=1 bs=32")
    page.get_by_label("At once").fill("2")
    page.get_by_label("Max fails").fill("3")
    page.get_by_label("GPU").fill("0.5")
    page.get_by_label("Name", exact=True).fill("grid")
    expect(page.get_by_role("button", name="Submit 8 jobs")).to_be_visible()
    expect(page.locator(".tried")).to_contain_text("could start now on")
    expect(page.locator(".grid-preview li").first).to_have_text("echo 0.01 8 on {gpu}")
    axe(page, "a sweep")
    assert [job["id"] for job in grass.jobs()] == before, "what was tried is not queued"
    page.get_by_role("button", name="Submit 8 jobs").click()
    page.wait_for_url("**/sweeps/sweep:*")
    expect(page.get_by_text("2 at once, stops after 3 failures")).to_be_visible()
    sweep = page.url.rsplit("/", 1)[1]
    jobs = grass.json("show", sweep)["jobs"]
    assert len(jobs) == 8 and {job["name"] for job in jobs} == {"grid"}
    assert {"lr": "1", "bs": "32"} not in [job["parameters"] for job in jobs]

    page.get_by_role("navigation").get_by_role("link", name="Submit").click()
    page.get_by_role("tab", name="Array").click()
    page.get_by_label("Command, with {index}").fill("echo {index}")
    page.get_by_label("Indexes").fill("9-0")
    expect(page.get_by_role("alert")).to_contain_text("backwards")
    page.get_by_label("Indexes").fill("0-8:4%2")
    page.get_by_role("button", name="Submit 3 jobs").click()
    page.wait_for_url(lambda url: "/sweeps/sweep:" in url and not url.endswith(sweep))
    jobs = grass.json("show", page.url.rsplit("/", 1)[1])["jobs"]
    assert sorted(job["command"][1] for job in jobs) == ["0", "4", "8"]

    evil = "<img src=x onerror=alert(1)>"
    page.get_by_role("navigation").get_by_role("link", name="Submit").click()
    page.get_by_role("tab", name="List").click()
    page.get_by_label("Command, with {column}").fill("echo {what}")
    content = f"what,n\n{evil},1\n'; rm -rf /,2\n".encode()
    page.get_by_label("From a file").set_input_files({"name": "a.csv", "mimeType": "text/csv", "buffer": content})
    expect(page.locator(".grid-preview li").first).to_contain_text(evil)
    page.get_by_label("Rows; each").fill("what,n\nx")
    expect(page.get_by_role("alert")).to_contain_text("the list, line 2: it has 1 values")
    page.get_by_label("Rows; each").fill(content.decode())
    page.get_by_role("button", name="Submit 2 jobs").click()
    page.wait_for_url("**/sweeps/sweep:*")
    expect(page.locator(".sweep-table")).to_contain_text(evil)
    assert page.locator("img[src='x']").count() == 0, "a value is text"
    jobs = grass.json("show", page.url.rsplit("/", 1)[1])["jobs"]
    assert sorted(job["command"][1] for job in jobs) == ["'; rm -rf /", evil]


def test_every_new_option_ends_in_the_job_and_a_dry_run_queues_nothing(
    site: Site, page_watch: PageWatch, watched_page: Page
) -> None:
    page, grass = watched_page, site.grass
    page_watch.expected += ["status of 404", "status of 400"]
    site.open(page, "/new")
    page.get_by_label("Command; each line").fill("sleep 600")
    page.get_by_text("More options").click()
    page.get_by_label("After success of").fill("999999")
    count = len(grass.jobs())
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".trial").get_by_role("alert")).to_contain_text("999999")
    page.get_by_label("After success of").fill("")
    evil = "team=<b>x</b>"
    typed = {"Unique key": "nightly", "Time limit": "2h", "Warn before": "90s:TERM", "Tries": "3", "Tags": evil}
    for label, value in {**typed, "No retry on": "2, 3", "Retry on": "137"}.items():
        page.get_by_label(label, exact=label in ("Tries", "Retry on", "Time limit")).fill(value)
    page.get_by_label("Name", exact=True).fill("held-up")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".tried")).to_contain_text("1 job would be")
    assert len(grass.jobs()) == count, "nothing was queued"
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/*")
    id_ = int(page.url.rsplit("/", 1)[1])
    with grass.client() as client:
        body = client.get(f"jobs/{id_}/submission")["body"]
    assert (body["warn_s"], body["warn_signal"], body["unique"]) == (90, "TERM", "nightly")
    assert (body["no_retry_on"], body["retry_on"], body["tags"]) == (["2", "3"], ["137"], {"team": "<b>x</b>"})

    # Suspended from the menu, it says so here and in the list; resumed, it goes on.
    grass.until(id_, "running")
    expect(page.locator("h1 .state.running")).to_be_visible()
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Suspend", exact=True).click()
    expect(page.locator("h1 .state.suspended")).to_be_visible()
    assert grass.job(id_)["suspended"] == "kept"
    site.open(page, "/jobs?q=name:held-up")
    expect(page.locator(".state.suspended").first).to_be_visible()
    site.open(page, f"/jobs/{id_}")
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .state.running")).to_be_visible()

    # The same key again is the same job, and the page says so.
    site.open(page, f"/new?from={id_}")
    expect(page.get_by_label("Unique key")).to_have_value("nightly")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".trial")).to_contain_text(f"Job {id_} with this unique key is not finished")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("nothing was queued", exact=False).first).to_be_visible()
    page.wait_for_url(f"**/jobs/{id_}")
    assert len(grass.jobs()) == count + 1
    grass("kill", str(id_))


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
