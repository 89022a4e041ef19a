"""What an action on very many jobs does to others: how long it takes, and how long a small request waits meanwhile.

The jobs want a device that another job holds. `python -m bench bulk --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from bench.homes import own_home, until
from bench.table import machine
from grassq.net.client import ApiClient
from grassq.sdk import Client

JOBS = 100_000
CAPACITY = "{cpu: 2, printer: 1}"
BLOCKED = {"printer": 1}
#: Between two small requests.
PAUSE_S = 0.002
ANSWER_S = 60.0


class Asker:
    """Asks `why` of one job, again and again, in a process of its own, and keeps the longest answer."""

    def __init__(self, home: str, job: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_ask, args=(home, str(job), theirs))

    def __enter__(self) -> Asker:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.send(False)
        self._process.join()

    def worst(self) -> float:
        """Return the longest answer since the last call, in seconds; the request under way counts too."""
        self._end.send(True)
        if not self._end.poll(ANSWER_S):
            raise SystemExit(f"no answer to `why` within {ANSWER_S:g} s")
        return float(self._end.recv())


def _ask(home: str, job: str, end: Connection) -> None:
    worst = 0.0
    with ApiClient(home) as client:
        while True:
            began = time.perf_counter()
            client.get("why", [job])
            worst = max(worst, time.perf_counter() - began)
            if end.poll(PAUSE_S):
                if not end.recv():
                    return
                end.send(worst)
                worst = 0.0


def measure(count: int) -> list[dict[str, object]]:
    """Return one row for each action."""
    with own_home() as home:
        (Path(home) / "grass.toml").write_text(f'capacity = "{CAPACITY}"\n')
        with Client(home) as client, ApiClient(home) as requests:
            holder = client.submit(["sleep", "1000000"], request=BLOCKED)
            until(lambda: holder.state == "running", "running holder of the printer")
            first = holder.id + 1
            selector, again = [f"{first}-{first + count - 1}"], [f"{first + count}-{first + 2 * count - 1}"]
            lines = [f"true {number}" for number in range(count)]
            actions: list[tuple[str, Callable[[], object]]] = [
                ("submit", lambda: client.submit_many(lines, request=BLOCKED)),
                ("hold", lambda: requests.change("jobs/hold", selectors=selector)),
                ("release", lambda: requests.change("jobs/release", selectors=selector)),
                ("priority", lambda: requests.change("jobs/priority", selectors=selector, priority=40)),
                ("kill", lambda: requests.kill(selector)),
                ("rerun", lambda: requests.change("jobs/rerun", selectors=selector)),
                ("kill again", lambda: requests.kill(again)),
                ("clean", lambda: requests.change("jobs/clean", selectors=selector)),
            ]
            try:
                with Asker(home, holder.id) as asker:
                    return [_row(name, action, asker) for name, action in actions]
            finally:
                requests.change("pause")
                holder.kill(grace_s=0)
                until(holder.done, "end of the holder")


def _row(name: str, action: Callable[[], object], asker: Asker) -> dict[str, object]:
    asker.worst()
    began = time.perf_counter()
    action()
    took = time.perf_counter() - began
    return {"action": name, "seconds": round(took, 2), "others_waited_ms": round(asker.worst() * 1e3, 1)}


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench bulk", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"change this many (default {JOBS:,})")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error("--jobs is above 0")
    load = os.getloadavg()[0]
    rows = measure(arguments.jobs)
    about = machine(load_before=load)
    print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    print(f"{'ACTION':<12} {'SECONDS':>8} {'OTHERS WAITED ms':>17}")
    for row in rows:
        print(f"{row['action']:<12} {row['seconds']:>8} {row['others_waited_ms']:>17}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": about, "jobs": arguments.jobs, "rows": rows}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
