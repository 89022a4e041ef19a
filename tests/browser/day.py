"""A compressed day of one open page: `python -m tests.browser.day --changes 200000 --moves 5000`.

Somebody goes from screen to screen, opens and closes what opens, and follows a log, while jobs come, change and go.
Ten times a day everything rests, and what the page and the daemon hold is measured. The command prints each measure
and fails if something has grown; the suite lives a shorter day (`test_live_page.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.chromium import launch
from hatch_build import build_page
from playwright.sync_api import Page, expect, sync_playwright
from tests.browser.browsing import PageWatch, Site, measure, new_context, wait_for

from grassq.sdk import Client

ROOT = Path(__file__).parent.parent.parent
#: What an eventful day of a busy machine has, and how often it is measured; before the first measure all screens were
#: seen, so that everything that is loaded once is there.
CHANGES, MOVES, MEASURES = 200_000, 5_000, 10
WARM_ROUNDS = 6
#: Jobs that wait all day, and are held, released and moved; and jobs that run, in one go.
STANDING, RUN_AT_ONCE = 400, 4
#: Every so many moves jobs run, and every so many moves those that have ended are cleaned.
RUN_EVERY, CLEAN_EVERY = 5, 50
#: An argument of the browser: no script is compiled. The heap has compiled code, too, which grows for hours and by
#: megabytes, in every page, and hides what a page keeps.
NO_COMPILER = "--js-flags=--jitless"
#: What a page may hold more in the end than in the beginning, or hold at all.
HEAP_RATIO = 1.10
LISTENERS_MORE, DETACHED_MORE = 20, 200
ELEMENTS_MAX = 3_000
RSS_MORE_KB = 30_000

LOUD = """
import itertools, time
for number in itertools.count():
    print("line", number, flush=True)
    time.sleep(0.05)
"""
RESULT = 'echo "{{\\"score\\": {lr}}}" > $GRASS_RESULT_FILE'

Costs = dict[str, float]


class Day:
    """One page, the daemon behind it, and what happens to both."""

    def __init__(self, site: Site, page: Page) -> None:
        self.site, self.page, self.grass = site, page, site.grass
        self.changes = self.moves = 0
        grass = self.grass
        grass.write("loud.py", LOUD)
        self.loud = grass.enqueue("--name", "loud", "--", sys.executable, "loud.py")
        grass.ok("create-queue", "day", "--gpu=1")
        grass.ok("pause", "day")
        grass.ok("sweep", RESULT, "-p", "lr", "1", "2", "3", "--name", "swept")
        grass.ok("wait", "name:swept")
        self.client = Client(grass.home)
        self.standing = self._submit(STANDING, "standing", queue="day", gpu=1)
        self._acts = cycle(("hold", "release", "priority"))

    def close(self) -> None:
        """End what was begun."""
        self.client.close()
        self.grass.ok("kill", "all")

    def live(self, changes: int, moves: int) -> Costs:
        """Let so many changes and moves happen, then rest; return what the page and the daemon hold."""
        upto, per_move = self.changes + changes, -(-changes // moves)
        for step in islice(cycle(self._steps()), moves):
            self._change(max(1, min(per_move, upto - self.changes)))
            step()
            self.moves += 1
        while self.changes < upto:
            self._change(upto - self.changes)
        return self.rest()

    def round(self) -> int:
        """Return how many moves there are until every screen was seen."""
        return len(self._steps())

    def rest(self) -> Costs:
        """Wait until nothing happens any more, and measure on a screen that is always the same."""
        self.grass.ok("wait", "name:short")
        self._clean()
        self._go("Machines", ".tile")
        self._go("Queues", ".queue")
        found = [measure(self.page)]
        for _ in range(4):
            self.page.wait_for_timeout(250)
            found.append(measure(self.page))
        lowest: Costs = {name: min(each[name] for each in found) for name in found[0]}
        return {**lowest, "rss_kb": self._rss_kb(), "changes": self.changes, "moves": self.moves}

    def is_right(self) -> None:
        """Check that the page shows what the daemon has, after all of it."""
        page = self.page
        self._go("Jobs", ".row .c-id")
        with self.grass.client() as client:
            answer = client.get("jobs/window", count=15)
        wanted = [(str(job["id"]), job["state"]) for job in answer["jobs"]]

        def shown() -> list[tuple[str, str]]:
            rows = page.locator(".row:not(.placeholder)").all_inner_texts()[: len(wanted)]
            return [
                (id_, state) for (id_, state), text in zip(wanted, rows, strict=False) if {id_, state} <= words(text)
            ]

        wait_for(page, lambda: shown() == wanted, "the table shows the newest jobs")
        self._go("Now", ".figure")
        running = sum(job["state"] == "running" for job in self.grass.jobs())
        expect(page.locator(".figure", has_text="running").locator(".figure-value")).to_have_text(str(running))

    def _rss_kb(self) -> float:
        status = Path(f"/proc/{self.grass.daemon_pid()}/status").read_text()
        return float(status.partition("VmRSS:")[2].split()[0])

    def _submit(self, count: int, name: str, **options: Any) -> list[int]:
        commands = [["true", str(number)] for number in range(count)]
        jobs = self.client.submit_many(commands, name=name, cwd=self.grass.cwd, **options)
        self.changes += count
        return [job.id for job in jobs]

    def _change(self, count: int) -> None:
        """Make some changes, of the jobs that stand in line and of jobs that run."""
        if self.moves % RUN_EVERY == 0:
            self._submit(RUN_AT_ONCE, "short")
            # Each of them starts and ends, too.
            self.changes += 2 * RUN_AT_ONCE
        if self.moves % CLEAN_EVERY == CLEAN_EVERY - 1:
            self._clean()
        left = count
        while left > 0:
            some, action = self.standing[: min(left, STANDING)], next(self._acts)
            self.standing = self.standing[len(some) :] + some
            level = {"priority": 30 + self.changes % 7} if action == "priority" else {}
            self._act(action, map(str, some), **level)
            left -= len(some)

    def _clean(self) -> None:
        self._act("clean", ["name:short"])

    def _act(self, action: str, selectors: Iterable[str], **values: Any) -> None:
        with self.grass.client() as client:
            self.changes += int(client.change(f"jobs/{action}", selectors=[*selectors], **values)["count"])

    def _go(self, place: str, sign: str) -> None:
        self.page.get_by_role("navigation").get_by_role("link", name=place).click()
        self.page.locator(sign).first.wait_for()

    def _steps(self) -> list[Callable[[], None]]:
        """Return the moves of one round."""
        return [
            lambda: self._go("Now", ".timeline canvas"),
            lambda: self._go("Jobs", ".row .c-id"),
            self._question,
            self._job,
            self._search,
            lambda: self._go("Sweeps", ".sweeps a, main table a"),
            self._sweep,
            lambda: self._go("Machines", ".tile"),
            lambda: self._go("Queues", ".queue"),
            self._queue,
            lambda: self._go("Submit", "form textarea, form input"),
            self._palette,
            lambda: self._go("Access", "main table"),
            self._help,
        ]

    def _question(self) -> None:
        """Select a job in the table, be asked about it, and leave it as it is."""
        page = self.page
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("H")
        self._leave_dialog()
        page.keyboard.press("Escape")

    def _job(self) -> None:
        """Open the job that writes a log, by the search of the table."""
        page = self.page
        page.get_by_label("Search jobs").fill("name:loud")
        page.get_by_label("Search jobs").press("Enter")
        page.locator(".row", has_text="loud").get_by_role("link").first.click()
        page.locator(".log-row").first.wait_for()

    def _search(self) -> None:
        page = self.page
        page.keyboard.press("/")
        page.get_by_label("Search the log").fill("line 1")
        expect(page.locator(".log-found")).to_contain_text("of")
        page.keyboard.press("Escape")

    def _sweep(self) -> None:
        self.page.get_by_role("link", name="swept").first.click()
        self.page.locator(".sweep-table tbody tr").first.wait_for()

    def _queue(self) -> None:
        """Unfold the line of a queue, and fold it again."""
        name = self.page.get_by_role("region", name="Queue day", exact=True).locator(".queue-name")
        name.click()
        self.page.locator(".head-row").first.wait_for()
        name.click()

    def _palette(self) -> None:
        self.page.keyboard.press("Control+k")
        self.page.get_by_role("dialog").get_by_role("combobox").fill("loud")
        self.page.get_by_role("option", name="loud").first.wait_for()
        self._leave_dialog()

    def _help(self) -> None:
        self.page.keyboard.press("?")
        self._leave_dialog()

    def _leave_dialog(self) -> None:
        dialog = self.page.get_by_role("dialog")
        dialog.wait_for()
        self.page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


def words(text: str) -> set[str]:
    """Return the words of a row, without the marks of states."""
    return {word.lstrip("▶▷•◦‖✗–✓") for word in text.split()}


def grown(before: Costs, after: Costs) -> list[str]:
    """Return what is more in the end of a day than it may be."""
    bounds = {
        "heap": before["heap"] * HEAP_RATIO,
        "listeners": before["listeners"] + LISTENERS_MORE,
        "detached": before["detached"] + DETACHED_MORE,
        "elements": ELEMENTS_MAX,
        "rss_kb": before["rss_kb"] + RSS_MORE_KB,
    }
    return [f"{name} {before[name]:,.0f} -> {after[name]:,.0f}" for name, most in bounds.items() if after[name] > most]


def main() -> int:
    """Live a day and print what it costs."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.day", description=__doc__)
    parser.add_argument("--changes", type=int, default=CHANGES, help=f"changes of jobs (default {CHANGES:,})")
    parser.add_argument("--moves", type=int, default=MOVES, help=f"moves in the page (default {MOVES:,})")
    arguments = parser.parse_args()
    problem = build_page(ROOT, "require")
    assert problem is None, problem
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        (Path(place) / "work").mkdir()
        site = Site(Path(place) / "home", Path(place) / "work")
        try:
            page = new_context(launch(playwright.chromium, NO_COMPILER)).new_page()
            watch = PageWatch(page, site.origin)
            site.log_in(page)
            left = live_and_tell(Day(site, page), arguments.changes, arguments.moves)
            watch.check()
        finally:
            site.close()
    tell("nothing has grown" if not left else f"grown: {left}")
    return 1 if left else 0


def live_and_tell(day: Day, changes: int, moves: int) -> list[str]:
    """Live a day, tell each measure, and return what has grown since the morning."""
    began = time.monotonic()
    measures = [day.live(WARM_ROUNDS * STANDING, WARM_ROUNDS * day.round())]
    tell(json.dumps({"s": round(time.monotonic() - began), **measures[0]}))
    for _ in range(MEASURES):
        measures.append(day.live(changes // MEASURES, max(1, moves // MEASURES)))
        tell(json.dumps({"s": round(time.monotonic() - began), **measures[-1]}))
    day.is_right()
    day.close()
    return grown(measures[0], measures[-1])


def tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
