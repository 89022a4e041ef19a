"""Grass beside other queues and the physical limit, all of them in one run."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.homes import clean_environment, own_folder
from bench.limit import compiled
from bench.peers import report
from bench.peers.base import SLOTS, Contestant
from bench.peers.far import HyperQueue, Ray, RayFunctions
from bench.peers.ours import Grass
from bench.peers.plain import Limit, Parallel, SimpleGpuScheduler, Xargs
from bench.peers.rounds import Plan, measure
from bench.peers.spool import Slurm, TaskSpooler
from bench.table import machine

JOBS = 10_000
ROUNDS = 3
DEEP = 100_000
DEEP_ROUNDS = 1
CONTESTANTS: tuple[type[Contestant], ...] = (
    Limit,
    Xargs,
    Grass,
    HyperQueue,
    TaskSpooler,
    Ray,
    SimpleGpuScheduler,
    Parallel,
    RayFunctions,
    Slurm,
)
#: Those for which a long queue is a question: the others hold it in a pipe, in processes, or not at all.
DEEP_NAMES = (Xargs.name, Grass.name, HyperQueue.name)


def main(argv: Sequence[str]) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many for the rate (default {JOBS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how many (default {ROUNDS})")
    parser.add_argument(
        "--deep",
        metavar="JOBS",
        type=int,
        nargs="?",
        const=DEEP,
        help=f"instead, one round of so many jobs ({DEEP} unless told) with {', '.join(DEEP_NAMES)}",
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="only this contestant; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if min(arguments.jobs, arguments.rounds, arguments.deep or 1) < 1:
        parser.error("jobs and rounds are at least 1")
    plan = Plan(arguments.jobs, arguments.rounds)
    if arguments.deep:
        plan = Plan(arguments.deep, DEEP_ROUNDS, rate_only=True)
    chosen = _chosen(parser, arguments.only, arguments.deep is not None)
    # Whoever is told to end still stops what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # More than a little of it, and the figures are of whoever else was busy.
    busy = os.getloadavg()[0]
    with clean_environment(), own_folder() as folder:
        found = measure(chosen, plan, compiled(folder))
    where = [*(f"{name} {value}" for name, value in machine().items()), f"files on {_filesystem()}"]
    print(", ".join([*where, f"load when it began {busy:.1f}"]))
    report.show(found, f"{plan.jobs} x /bin/true on {SLOTS} slots; medians of {plan.rounds} rounds")
    report.compare(found, Grass.name)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report.document(found, plan.jobs), indent=2) + "\n")
    return 0


def _chosen(parser: argparse.ArgumentParser, only: list[str] | None, deep: bool) -> list[Contestant]:
    names = [kind.name for kind in CONTESTANTS if not deep or kind.name in DEEP_NAMES]
    folded = {name.casefold(): name for name in names}
    wanted = names if only is None else [folded.get(name.casefold(), "") for name in only]
    if "" in wanted:
        parser.error(f"there is no contestant of that name; they are {', '.join(names)}")
    return [kind() for kind in CONTESTANTS if kind.name in wanted]


def _filesystem() -> str:
    """The kind that homes are on: where it is memory, being durable costs nothing and says nothing."""
    here = Path(tempfile.gettempdir()).resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    above = [(len(point), kind) for point, kind in mounts if here.is_relative_to(point)]
    return max(above, default=(0, "an unknown file system"))[1]
