"""A job that prints as fast as it can, with a limit of its log and without: what the limit costs the job and the disk.

Both run in one home, in turn. `--gib N` is how much each job writes, `--limit SIZE` the limit; `--json FILE` writes the
figures too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.homes import own_home
from bench.table import machine
from grassq.run import attempt_notes
from grassq.sdk import Client

ROUNDS = 3
#: Writes blocks of lines of 80 bytes, and says at the end how long that took.
WRITER = """
import os, sys, time
block = (b"x" * 79 + b"\\n") * 819
began, left = time.monotonic(), int(sys.argv[1])
while left > 0:
    left -= os.write(1, block)
open(sys.argv[2], "w").write(str(time.monotonic() - began))
"""
LOOK_S = 0.005


def measure(size: int, limit: str) -> dict[str, object]:
    """Return all figures."""
    rates: dict[str, list[float]] = {"none": [], limit: []}
    peaks, lasts, shares, about = [], [], [], 0
    with own_home() as home, Client(home) as client:
        for number in range(ROUNDS):
            for log_max in rates:
                said = Path(home) / f"said-{number}-{log_max}"
                bytes_max = 0 if log_max == "none" else int(float(limit[:-1]) * (1 << (20 if limit[-1] == "M" else 30)))
                command = [sys.executable, "-c", WRITER, str(size), str(said)]
                job = client.submit(command, log_max=bytes_max)
                path = f"{home}/jobs/{job.id}/1"
                peak, share = _watch(path, lambda job=job: job.done())
                rates[log_max].append(size / float(said.read_text()) / 1e6)
                if bytes_max:
                    peaks.append(peak >> 20)
                    lasts.append(_disk(path) >> 20)
                    shares.append(share)
                    note = attempt_notes.read_cut(path, "log", size)
                    about += note is not None and not note.exact
                client.clean(job)
    plain, limited = statistics.median(rates["none"]), statistics.median(rates[limit])
    return {
        "written_mib": size >> 20,
        "limit": limit,
        "without_limit_mb_per_s": round(plain),
        "with_limit_mb_per_s": round(limited),
        "ratio": round(limited / plain, 2),
        "disk_peak_mib": max(peaks),
        "disk_at_end_mib": max(lasts),
        "shim_share_of_a_core": round(max(shares), 2),
        "rounds_with_estimated_lines": about,
    }


def _disk(path: str) -> int:
    try:
        return Path(path, "log").stat().st_blocks * 512
    except OSError:
        return 0


def _watch(path: str, is_over: Any) -> tuple[int, float]:
    """Return the most that a log took of the disk while its job ran, and the share of a core that its shim took."""
    peak, began, before, now = 0, 0.0, 0.0, 0.0
    shim = 0
    asked = time.monotonic()
    while True:
        peak = max(peak, _disk(path))
        if not shim:
            try:
                shim = int(json.loads(Path(path, "started").read_text().split("\n")[0])["pid"])
                began, before = time.monotonic(), _cpu(shim)
            except (OSError, ValueError):
                shim = 0
        else:
            now = _cpu(shim) or now
        time.sleep(LOOK_S)
        if time.monotonic() - asked > 0.1:
            asked = time.monotonic()
            if is_over():
                return peak, (now - before) / max(time.monotonic() - began, 0.01)


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench flood", description=__doc__)
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--limit", default="64M", help="such as 64M or 1G")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args(argv)
    figures = measure(int(arguments.gib * (1 << 30)), arguments.limit)
    print(machine())
    for name, figure in figures.items():
        print(f"{name:32} {figure}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
