"""A hundred machines over ssh at one broker: memory, descriptors, processes, and the way back after all are lost.

`python -m bench machines [--machines 100] [--rtt MS] [--json FILE]`. The ssh is one without a network, with the round
trips of a real one, so that the daemon is measured and not a hundred sshds beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench.homes import clean_environment, own_folder, until
from bench.table import machine

MACHINES = 100
RTT_MS = 10.0
JOBS_EACH = 3
#: How long the jobs run that are under way while all connections are lost.
JOB_S = 3
WAIT_S = 300.0


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench machines", description=__doc__)
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--rtt", type=float, default=RTT_MS, help="milliseconds of a round trip")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args(argv)
    load = os.getloadavg()[0]
    with clean_environment(), own_folder() as folder:
        figures = {"machine": machine(load), **_measured(folder, options.machines, options.rtt)}
    for name, value in figures.items():
        print(f"{name}: {value}")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _measured(folder: Path, count: int, rtt_ms: float) -> dict[str, object]:
    from tests.machines.many import Many

    (folder / "none").mkdir()
    none = Many(folder / "none", 0)
    try:
        none.near.begin()
        alone = none.cost()
    finally:
        none.close()
    many = Many(folder, count, rtt_ms=rtt_ms)
    try:
        many.near.serve()
        names = set(many.names)
        first_s = until(lambda: names <= many.near.connected(), "connection to all machines", WAIT_S)
        connected = many.cost()
        began = time.monotonic()
        many.ended(many.submit(1, 0))
        each_s = time.monotonic() - began
        ids = many.submit(JOBS_EACH, JOB_S)
        many.drop_all()
        until(lambda: len(many.near.connected()) < count, "a lost connection", WAIT_S)
        back_s = until(lambda: names <= many.near.connected(), "connection to all machines again", WAIT_S)
        wrong = many.wrong(ids)
        after = many.cost()
    finally:
        many.close()
    return {
        "machines": count,
        "round trip, ms": rtt_ms,
        "without machines": alone._asdict(),
        "with all machines": connected._asdict(),
        "after the loss": after._asdict(),
        "until all are connected first, s": round(first_s, 2),
        "one job on each, submit to known end, s": round(each_s, 2),
        "until all are connected again, s": round(back_s, 2),
        "jobs under way meanwhile": len(ids),
        "jobs lost, run twice, or with a wrong code": len(wrong),
    }
