"""Measures Grass against the plainest thing that does the same, interleaved in one run, and prints the ratios."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench import broker, local, partition, takeover
from bench.table import Row, Skipped, document, show

QUICK = 10
PARTS = ("local", "broker", "takeover", "partition")


def main() -> int:
    """Run every measurement and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of Grass, as ratios in one run.")
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds: to see that it works")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)}; they are {', '.join(PARTS)}")
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
    return 0


def _measure(name: str, part: int) -> tuple[list[Row], list[Skipped]]:
    if name == "local":
        return local.rows(part), []
    if name == "broker":
        return broker.rows(part), []
    return takeover.rows(part) if name == "takeover" else partition.rows(part)


if __name__ == "__main__":
    sys.exit(main())
