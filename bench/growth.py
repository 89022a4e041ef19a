"""How the next decision grows with the number of distinct requests: counted looks, microseconds and bytes.

Each row is a process of its own: it loads n points of k amounts, asks for the first that fits, changes orders, and
tells what that took. `python -m bench growth --json FILE` writes the rows too.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from grassq.core.planner.firstfit.index import Index

SIZES = (1_000, 10_000, 100_000, 1_000_000)
DIMS = (1, 2, 3, 4)
#: antichain: no point is less than another, and what is free is just below one of them: nothing fits, and neither the
#: least amounts of a group nor its least order say so. blocked: what is free is known beforehand, and all that do not
#: fit come first, as behind a long queue of jobs that wait.
KINDS = ("antichain", "blocked", "uniform", "realistic")
QUESTIONS = 300
UPDATES = 300
MOST = 10**9
#: Fewer points than this are lost in what the process itself takes.
WEIGHED = 100_000
CHILD_TIMEOUT_S = 900.0
CORES, GIB, DEVICES = 128, 1024, 8
FRACTIONS = (100_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)

Columns: TypeAlias = "list[array[int]]"


def points(kind: str, count: int, dims: int, chance: random.Random) -> tuple[Columns, array[int]]:
    """The amounts by dimension, and the orders."""
    if kind == "realistic":
        return _realistic(count, dims, chance)
    columns = [array("q", (chance.randrange(MOST) for _ in range(count))) for _ in range(dims)]
    if kind == "antichain":
        columns[-1] = array("q", (dims * MOST - sum(rest) for rest in zip(*columns[:-1], strict=True))) or array(
            "q", [MOST] * count
        )
    orders = array("q", chance.sample(range(count), count))
    if kind == "antichain":  # the larger the largest amount the sooner
        ranked = zip(orders, map(max, zip(*columns, strict=True)), strict=True)
        orders = array("q", (order - most * count for order, most in ranked))
    elif kind == "blocked":
        edge = _half(dims)
        ranked = zip(orders, map(max, zip(*columns, strict=True)), strict=True)
        orders = array("q", (order + count * (most <= edge) for order, most in ranked))
    return columns, orders


def _half(dims: int) -> int:
    """As much of each as half of all points ask for at most."""
    return int(MOST * 0.5 ** (1 / dims))


def _realistic(count: int, dims: int, chance: random.Random) -> tuple[Columns, array[int]]:
    """Memory in MiB, cores, devices and their memory, as people ask for them; priorities, then first come."""
    draws: tuple[Callable[[], int], ...] = (
        lambda: int(min(chance.lognormvariate(9.0, 1.2), 512 * GIB)) * 1_000_000,
        lambda: chance.choice((1, 1, 2, 4, 4, 8, 8, 16, 32, 64)) * 1_000_000,
        lambda: chance.choice(FRACTIONS),
        lambda: int(chance.triangular(1, 80 * GIB, 10 * GIB)) * 1_000_000,
    )
    columns = [array("q", (draw() for _ in range(count))) for draw in draws[:dims]]
    return columns, array("q", (chance.choice((-50, -30, -30, -30, -10)) * 2**32 + at for at in range(count)))


def questions(kind: str, columns: Columns, count: int, chance: random.Random) -> list[tuple[int, ...]]:
    """What is free, once for each question."""
    dims = len(columns)
    if kind == "realistic":
        whole = (512 * GIB * 1_000_000, CORES * 1_000_000, DEVICES * 1_000_000, 80 * GIB * 1_000_000)
        return [tuple(int(most * chance.random() ** 2) for most in whole[:dims]) for _ in range(count)]
    if kind == "blocked":
        return [tuple(_half(dims) - chance.randrange(MOST // 10_000) for _ in columns) for _ in range(count)]
    if kind == "antichain":
        chosen = [chance.randrange(len(columns[0])) for _ in range(count)]
        return [(*(column[at] for column in columns[:-1]), columns[-1][at] - 1) for at in chosen]
    return [tuple(chance.randrange(MOST) for _ in range(dims)) for _ in range(count)]


def measure(kind: str, dims: int, count: int) -> dict[str, object]:
    """One row."""
    chance = random.Random(f"{kind} {dims} {count}")
    columns, orders = points(kind, count, dims, chance)
    asked = questions(kind, columns, QUESTIONS, chance)
    gc.collect()
    before = _resident()
    index = Index(dims)
    started = time.process_time()
    index.load(zip(range(count), zip(*columns, strict=True), orders, strict=True))
    loaded = time.process_time() - started
    gc.collect()
    weight = (_resident() - before) / count
    looks, spent = [], []
    for free in asked:
        seen, started_ns = index.visited, time.thread_time_ns()
        next(index.fitting(free), None)
        spent.append((time.thread_time_ns() - started_ns) / 1000)
        looks.append(index.visited - seen)
    return {
        "kind": kind,
        "k": dims,
        "n": count,
        "looks": round(statistics.mean(looks), 1),
        "looks_most": max(looks),
        "us": round(statistics.median(spent), 1),
        "us_p99": round(sorted(spent)[len(spent) * 99 // 100], 1),
        "us_update": round(_update(index, columns, orders, chance), 1),
        "load_s": round(loaded, 2),
        "bytes_a_point": round(weight) if count >= WEIGHED else None,
    }


def _update(index: Index, columns: Columns, orders: Sequence[int], chance: random.Random) -> float:
    """Microseconds to take a point away or to put it back."""
    spent = []
    for key in (chance.randrange(len(orders)) for _ in range(UPDATES)):
        amounts = tuple(column[key] for column in columns)
        started_ns = time.thread_time_ns()
        index.remove(key)
        index.put(key, amounts, orders[key])
        spent.append((time.thread_time_ns() - started_ns) / 2000)
    return statistics.median(spent)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def rows(sizes: Sequence[int], dims: Sequence[int], kinds: Sequence[str]) -> list[dict[str, object]]:
    """Every row, each measured in a process of its own and printed when it is there."""
    found = []
    print(
        " ".join(
            f"{name:>10}" for name in ("KIND", "K", "N", "LOOKS", "MOST", "US", "P99", "UPDATE", "LOAD S", "BYTES")
        )
    )
    for kind, each, count in ((kind, each, count) for kind in kinds for each in dims for count in sizes):
        command = [sys.executable, "-m", "bench.growth", "--one", kind, str(each), str(count)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S)
        row: dict[str, object] = json.loads(done.stdout)
        print(" ".join(f"{'-' if value is None else value:>10}" for value in row.values()), flush=True)
        found.append(row)
    return found


def main(argv: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--most", metavar="N", type=int, default=SIZES[-1], help="no more points than this")
    parser.add_argument("--dims", metavar="K", type=int, nargs="*", default=DIMS, help="so many amounts")
    parser.add_argument("--kinds", metavar="KIND", nargs="*", default=KINDS, choices=KINDS, help=", ".join(KINDS))
    parser.add_argument("--one", metavar=("KIND", "K", "N"), nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        kind, dims, count = arguments.one
        print(json.dumps(measure(kind, int(dims), int(count))))
        return
    found = rows([size for size in SIZES if size <= arguments.most], arguments.dims, arguments.kinds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
