"""What an action on very many jobs does to others: how long it takes, and how long a small request waits meanwhile.

The jobs want a device that another job holds. `python -m bench bulk --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from bench.blocked import BLOCKED, Asker, blocked_home
from bench.table import tell_rows

JOBS = 100_000


def measure(count: int) -> list[dict[str, object]]:
    """Return one row for each action."""
    with blocked_home() as where, Asker(where.home, where.holder) as asker:
        client, requests = where.client, where.requests
        first = where.holder + 1
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
        return [_row(name, action, asker) for name, action in actions]


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
    tell_rows(measure(arguments.jobs), load, arguments.json, jobs=arguments.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
