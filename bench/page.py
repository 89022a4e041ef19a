"""The web page in a real Chromium: first paint, first rows, jumps, sorts, updates and memory with many jobs.

Beside it, in the same run and by the same script, the first paint and the first rows of MLflow with as many runs and of
Ray's dashboard, if `bench/needs.sh` has installed them. `python -m bench page --json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright import sync_api as playwright_api
from playwright.sync_api import Browser, Page, sync_playwright

from bench.chromium import launch
from bench.homes import own_home
from bench.live import WANTED, pages
from bench.table import machine
from grassq.net.client import ApiClient
from grassq.sdk import Client

JOBS = 100_000
AT_ONCE = 20_000
#: Pages that are loaded, jumps and sorts, and updates that are measured.
LOADS, MOVES, UPDATES = 7, 20, 30
OTHER_PAGES = 49
WAIT_MS = 120_000
ROW_PX = 30
#: Notes when the first row with data is in the page, and in which frame it was drawn.
NOTE_ROWS = """
window.firstRow = null;
new MutationObserver(() => {
  if (window.firstRow === null && document.querySelector(%s)) requestAnimationFrame(() => {
    if (window.firstRow === null) window.firstRow = performance.now();
  });
}).observe(document, {childList: true, subtree: true});
"""
LOADED = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const code = files.filter((each) => !each.name.includes("/v1/"));
  return {paint: paint ? paint.startTime : null, rows: window.firstRow,
          bytes: files.reduce((sum, each) => sum + each.transferSize, 0),
          code: code.reduce((sum, each) => sum + each.encodedBodySize, 0)};
}"""
GRASS_ROW = '[role="grid"] [role="row"]:not(.placeholder) .c-id'

Figures = dict[str, Any]


def load(browser: Browser, address: Callable[[], str], row: str, times: int) -> Figures:
    """Load an address in browsers without a history; return medians, and the memory of the last page."""
    found: list[Figures] = []
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.add_init_script(NOTE_ROWS % json.dumps(row))
        page.goto(address())
        wait(page, "() => window.firstRow !== null")
        page.wait_for_timeout(300)
        found.append({**page.evaluate(LOADED), "heap": heap(page)})
        context.close()
    return {
        "first_paint_ms": round(statistics.median(each["paint"] or 0.0 for each in found)),
        "first_rows_ms": round(statistics.median(each["rows"] for each in found)),
        "first_rows_ms_longest": round(max(each["rows"] for each in found)),
        "transferred_kb": round(found[-1]["bytes"] / 1e3, 1),
        "code_kb": round(found[-1]["code"] / 1e3, 1),
        "heap_mb": round(found[-1]["heap"] / 1e6, 1),
    }


def wait(page: Page, condition: str, argument: object = None) -> None:
    """Wait until a function of the page is true; Playwright's own way is forbidden by the policy of our page."""
    deadline = time.monotonic() + WAIT_MS / 1e3
    while not page.evaluate(condition, argument):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{condition} was not true within {WAIT_MS / 1e3:g} s")
        page.wait_for_timeout(5)


def heap(page: Page) -> float:
    """Return the bytes that the page's scripts hold, after its rubbish was collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["JSHeapUsedSize"])


def login(client: ApiClient) -> str:
    """Return a login link to the table of jobs."""
    answer = client.change("session/link")
    return f"http://127.0.0.1:{answer['port']}/jobs#code={answer['code']}"


def moves(page: Page, jobs: int, count: int) -> Figures:
    """Jump to rows and sort by columns; return how long until the right rows were drawn."""
    dice = random.Random(7)
    jumps: list[float] = []
    for _ in range(count):
        row = dice.randrange(jobs - 100)
        jumps.append(
            page.evaluate(
                """([row, px, id]) => new Promise((done) => {
                  const grid = document.querySelector('[role="grid"]');
                  const began = performance.now();
                  grid.scrollTop = row * px;
                  const look = () => [...grid.querySelectorAll('.c-id')].some((cell) => cell.textContent.trim() === id)
                    ? done(performance.now() - began) : requestAnimationFrame(look);
                  look();
                })""",
                [row, ROW_PX, str(jobs - row)],
            )
        )
    page.evaluate("document.querySelector('[role=\"grid\"]').scrollTop = 0")
    sorts: list[float] = []
    for column in ("Duration", "Name", "Queue", "Id"):
        began = time.perf_counter()
        with page.expect_response(lambda answer: "/v1/jobs/window" in answer.url):
            page.get_by_role("columnheader").get_by_role("button", name=column, exact=False).first.click()
        sorts.append((time.perf_counter() - began) * 1e3)
    return {
        "jump_ms_median": round(statistics.median(jumps), 1),
        "jump_ms_p95": round(statistics.quantiles(jumps, n=20)[18], 1),
        "sort_ms_median": round(statistics.median(sorts)),
        "sort_ms_longest": round(max(sorts)),
    }


def updates(page: Page, client: Client, count: int) -> Figures:
    """Submit held jobs one by one; return how long after the commit's answer the page has drawn each."""
    page.evaluate("document.querySelector('[role=\"grid\"]').scrollTop = 0")
    page.evaluate(
        """() => { window.seen = {};
          new MutationObserver(() => { for (const cell of document.querySelectorAll('[role="grid"] .c-id')) {
            const id = cell.textContent.trim(); if (!(id in window.seen)) window.seen[id] = Date.now(); }
          }).observe(document, {childList: true, subtree: true, characterData: true}); }"""
    )
    late: list[float] = []
    for _ in range(count):
        page.wait_for_timeout(300)
        job = client.submit(["true"], hold=True)
        answered = time.time()
        wait(page, "(id) => id in window.seen", str(job.id))
        late.append(page.evaluate("(id) => window.seen[id]", str(job.id)) - answered * 1e3)
    return {
        "update_ms_median": round(statistics.median(late)),
        "update_ms_p95": round(statistics.quantiles(late, n=20)[18]),
    }


@contextlib.contextmanager
def other_pages(home: str, count: int) -> Iterator[None]:
    """Keep other pages open meanwhile, in a process of their own."""
    script = (
        "import asyncio, sys; from bench.page import keep_open; asyncio.run(keep_open(sys.argv[1], int(sys.argv[2])))"
    )
    process = subprocess.Popen([sys.executable, "-c", script, home, str(count)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def keep_open(home: str, count: int) -> None:
    """Open pages, say so, and keep them."""
    async with pages(home, count, WANTED):
        print("open", flush=True)
        await asyncio.Event().wait()


def fill(client: Client, jobs: int) -> None:
    """Store many jobs that wait."""
    for first in range(0, jobs, AT_ONCE):
        commands = [["true", str(number)] for number in range(first, min(jobs, first + AT_ONCE))]
        client.submit_many(commands, hold=True)


def grass(browser: Browser, jobs: int, quick: int) -> Figures:
    """Measure Grass's own page."""
    with own_home() as home, Client(home) as client, ApiClient(home) as api:
        fill(client, jobs)
        figures = {"rows": jobs, **load(browser, lambda: login(api), GRASS_ROW, max(1, LOADS // quick))}
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.goto(login(api))
        page.locator(GRASS_ROW).first.wait_for(timeout=WAIT_MS)
        page.wait_for_timeout(2000)
        figures |= moves(page, jobs, max(4, MOVES // quick))
        figures |= updates(page, client, max(4, UPDATES // quick))
        with other_pages(home, OTHER_PAGES):
            figures |= {
                f"{name}_50_pages": value for name, value in updates(page, client, max(4, UPDATES // quick)).items()
            }
        page.context.close()
        return figures


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench page", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--peers", metavar="FOLDER", default=".venv-peers", help="the environment of bench/needs.sh")
    parser.add_argument("--chromium", metavar="PATH", help="the browser (default: the one on PATH)")
    parser.add_argument("--ray-jobs", type=int, default=20, help="jobs that Ray is given")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    quick = 10 if arguments.quick else 1
    # Loaded here: it uses what is measured here.
    from bench import page_peers

    figures: dict[str, object] = {"machine": machine()}
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium, path=arguments.chromium)
        figures["grass"] = grass(browser, arguments.jobs, quick)
        programs = Path(arguments.peers) / "bin"
        for name, measure, rows in (
            ("mlflow", page_peers.mlflow, arguments.jobs),
            ("ray", page_peers.ray, arguments.ray_jobs),
        ):
            program = (programs / name).absolute()
            if not program.exists():
                figures[name] = f"not installed in {arguments.peers}: bench/needs.sh installs it"
                continue
            try:
                figures[name] = measure(browser, program, rows, quick)
            except (OSError, RuntimeError, subprocess.SubprocessError, playwright_api.Error) as error:
                # A peer that fails is told of, and the others are measured.
                figures[name] = f"failed: {str(error).splitlines()[0]}"
        browser.close()
    print(json.dumps(figures, indent=2))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0
