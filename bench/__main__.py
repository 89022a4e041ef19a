"""Measures Grass against the plainest thing that does the same, interleaved in one run, and prints the ratios."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from bench import broker, local, partition, sgs, takeover
from bench.table import Row, Skipped, document, show

QUICK = 10
PARTS = ("local", "sgs", "broker", "takeover", "partition")
#: Parts with a table and options of their own, loaded when asked for: `python -m bench peers --help`.
APART = {
    "peers": "bench.peers.run",
    "growth": "bench.growth",
    "packing": "bench.packing",
    "eta": "bench.eta",
    "deep": "bench.deep",
    "idle": "bench.idle",
    "follow": "bench.follow",
    "flood": "bench.flood",
    "log": "bench.log",
    "live": "bench.live",
    "page": "bench.page",
    "top": "bench.top",
    "bulk": "bench.bulk",
    "edges": "bench.edges",
    "window": "bench.window",
    "fairness": "bench.fairness",
    "ssh": "bench.ssh",
    "machines": "bench.machines",
    "completion": "bench.completion",
    "plot": "bench.plot",
}
#: What `--quick` is for the peers.
QUICK_PEERS = ("--jobs", "1000", "--rounds", "1")


def main() -> int:
    """Run every measurement and print the table."""
    if len(sys.argv) > 1 and sys.argv[1] in APART:
        return _apart(sys.argv[1], sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of Grass, as ratios in one run.")
    names = ", ".join(PARTS)
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"only these: {names}; or one of {', '.join(APART)}")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds: to see that it works")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        if both := unknown & set(APART):
            parser.error(f"{min(both)} is a part with options of its own: python -m bench {min(both)} [OPTION]...")
        parser.error(f"there is no part {min(unknown)}; they are {names}, {', '.join(APART)}")
    part = QUICK if arguments.quick else 1
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name in arguments.parts or PARTS:
        found, missing = _measure(name, part)
        rows += found
        skipped += missing
    show(rows, skipped)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document(rows, skipped), indent=2) + "\n")
    if not arguments.parts:
        print()
        return _apart("peers", QUICK_PEERS if arguments.quick else ())
    return 0


def _measure(name: str, part: int) -> tuple[list[Row], list[Skipped]]:
    if name == "local":
        return local.rows(part), []
    if name == "sgs":
        return sgs.rows(part)
    if name == "broker":
        return broker.rows(part), []
    return takeover.rows(part) if name == "takeover" else partition.rows(part)


def _apart(name: str, argv: list[str] | tuple[str, ...]) -> int:
    return int(importlib.import_module(APART[name]).main(argv) or 0)


if __name__ == "__main__":
    sys.exit(main())
