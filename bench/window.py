"""How fast the table of the page Jobs is with very many jobs: first rows, a jump, another sort, filters, live changes.

The jobs wait for a device that does not come free; every tenth was cancelled. Times are of whole requests on the unix
socket, by one client. `others` is the longest time that a small request of another client took meanwhile.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from statistics import median

from bench.blocked import BLOCKED, Asker, blocked_home
from bench.table import tell_rows
from grassq.net.client import ApiClient

JOBS = 100_000
#: Rows of one window.
COUNT = 100
#: How often each question is asked again once its table is there.
ROUNDS = 15


def measure(count: int) -> list[dict[str, object]]:
    """Return one row for each question."""
    far = count * 8 // 10
    questions: dict[str, dict[str, object]] = {
        "first rows": {},
        "jump to 80 %": {"first": far},
        "sort by name": {"sort": "name"},
        "sort by priority, jump": {"sort": "priority", "first": far},
        "filter state": {"q": "state:cancelled"},
        "filter name": {"q": "name:run-1*"},
        "filter text": {"q": "train lr=0.5"},
        "filter request": {"q": "printer>0 queue:default"},
    }
    with blocked_home() as where, Asker(where.home, where.holder) as asker:
        for part in range(10):
            lines = [f"python train.py lr=0.{number % 10}" for number in range(part, count, 10)]
            where.client.submit_many(lines, request=BLOCKED, name=f"run-{part}")
        where.requests.kill(["name:run-9"])
        rows = [_row(where.requests, name, asked, asker) for name, asked in questions.items()]
        rows.append(_changing(where.requests, where.holder, asker))
        return rows


def _ask(requests: ApiClient, asked: dict[str, object]) -> float:
    """Return how long it takes until a window is there and complete."""
    began = time.perf_counter()
    while not (answer := requests.get("jobs/window", (), count=COUNT, **asked))["is_exact"]:
        pass
    took = time.perf_counter() - began
    if not answer["jobs"]:
        raise SystemExit(f"{asked}: no rows")
    return took


def _row(requests: ApiClient, name: str, asked: dict[str, object], asker: Asker) -> dict[str, object]:
    asker.worst()
    first = _ask(requests, asked)
    again = [_ask(requests, asked) for _ in range(ROUNDS)]
    return {
        "question": name,
        "cold_ms": round(first * 1e3, 1),
        "again_ms": round(median(again) * 1e3, 1),
        "others_ms": round(asker.worst() * 1e3, 1),
    }


def _changing(requests: ApiClient, holder: int, asker: Asker) -> dict[str, object]:
    """Ask for a sorted window after each of some changes."""
    asker.worst()
    took = []
    for number in range(ROUNDS):
        requests.change("jobs/priority", selectors=[str(holder + 1 + number)], priority=50 + number)
        took.append(_ask(requests, {"sort": "priority"}))
    return {
        "question": "after a change, sorted",
        "cold_ms": round(took[0] * 1e3, 1),
        "again_ms": round(median(took) * 1e3, 1),
        "others_ms": round(asker.worst() * 1e3, 1),
    }


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench window", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"with this many (default {JOBS:,})")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 100:
        parser.error("--jobs is at least 100")
    load = os.getloadavg()[0]
    tell_rows(measure(arguments.jobs), load, arguments.json, jobs=arguments.jobs)
    return 0
