"""What a long log costs: its index, a place in it, a search, and following a job that writes 50 MB/s.

`python -m bench log --gigabytes 1 --json FILE` writes the figures too. The log is written by `seq`, so that the text of
every line is known and checked. All files are deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.homes import own_home, until
from bench.table import machine
from grassq.core.term.screen import Screen
from grassq.net.client import ApiClient
from grassq.net.encoding import query
from grassq.net.log_lines import ask_lines

#: `seq` begins here, so that every line has ten bytes with its newline.
FIRST = 100_000_000
LINE_BYTES = 10
PLACES = 30
START_S = 600.0
WRITES_MB_S = 50
FOLLOWED_S = 10.0
#: Writes so many bytes a second for so many seconds, and says how many it really wrote a second.
WRITER = """
import os, sys, time
block = (b"step 1234567 loss 0.123456 accuracy 0.987654 a line of a usual length" + b"." * 30 + b"\\n") * 5000
rate, seconds = float(sys.argv[1]) * 1e6, float(sys.argv[2])
began = time.monotonic(); written = 0; slowest = 0.0
while (now := time.monotonic()) - began < seconds:
    if written > (now - began) * rate:
        time.sleep(0.002); continue
    written += os.write(1, block)
    slowest = max(slowest, time.monotonic() - now)
took = time.monotonic() - began
open(sys.argv[3], "w").write(f"{written / took / 1e6} {slowest * 1e3}")
"""


def measure(gigabytes: float, seconds: float) -> dict[str, object]:
    """Return all figures."""
    found: dict[str, object] = {"skim_mb_s_plain": round(_skim_rate())}
    with own_home() as home, ApiClient(home) as client:
        lines = int(gigabytes * 1e9) // LINE_BYTES
        _run(client, ["seq", str(FIRST), str(FIRST + lines - 1)])
        found |= _places(client, lines)
        found |= _searches(client, lines)
        found |= _following(home, client, seconds)
    return found


def _run(client: ApiClient, argv: list[str]) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "grassq", "enqueue", "-q", "--log-max", "0", "--", *argv],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    job = int(done.stdout)
    until(lambda: client.one_job(str(job))["state"] in ("succeeded", "failed"), "end of the job", START_S)
    return job


def _places(client: ApiClient, lines: int) -> dict[str, object]:
    """Measure the last lines without an index, the index, and lines anywhere with it."""
    began = time.perf_counter()
    last = ask_lines(client, 1, line=-20)
    tail_ms = (time.perf_counter() - began) * 1e3
    assert last["lines"][-1]["spans"][0][1] == str(FIRST + lines - 1)
    pid = int(client.info()["pid"])
    cpu, began = _cpu_s(pid), time.perf_counter()
    while not (answer := ask_lines(client, 1, line=lines, count=1))["lines"]:
        time.sleep(0.05)
    took, cpu = time.perf_counter() - began, _cpu_s(pid) - cpu
    chosen = [random.Random(at).randrange(1, lines) for at in range(PLACES)]
    spent = []
    for number in chosen:
        began = time.perf_counter()
        answer = ask_lines(client, 1, line=number, count=50)
        spent.append((time.perf_counter() - began) * 1e3)
        assert answer["lines"][0]["spans"][0][1] == str(FIRST + number - 1), answer["lines"][0]
    size = answer["size"]
    return {
        "log_gb": round(size / 1e9, 2),
        "open_at_end_without_index_ms": round(tail_ms, 1),
        "index_build_s": round(took, 2),
        "index_build_mb_s": round(size / took / 1e6),
        "index_build_mb_per_cpu_s": round(size / max(cpu, 0.01) / 1e6),
        "place_ms_median": round(statistics.median(spent), 1),
        "place_ms_max": round(max(spent), 1),
    }


def _searches(client: ApiClient, lines: int) -> dict[str, object]:
    """Measure the first hit of searches, and a search through the whole log."""
    middle = FIRST + lines // 2
    near, _ = _search(client, q=str(FIRST + 1000))
    _, whole = _search(client, q="no such text")
    _, expression = _search(client, q=f"^{str(middle)[:-1]}[05]$", regex=1, after=lines // 2 - 1_000_000)
    return {
        "first_hit_ms": round(near * 1e3, 1),
        "search_whole_s": round(whole, 2),
        "search_mb_s": round(lines * LINE_BYTES / whole / 1e6),
        "regex_from_the_middle_mb_s": round((lines // 2 + 1_000_000) * LINE_BYTES / expression / 1e6),
    }


def _search(client: ApiClient, **asked: object) -> tuple[float, float]:
    """Return the seconds to the first line of the answer, and to its end."""
    began = time.perf_counter()
    parts, connection = client.stream("/v1/jobs/1/log/search" + query(asked.items()), 600.0)
    first = 0.0
    for part in parts:
        if part and not first:
            first = time.perf_counter() - began
    connection.close()
    return first, time.perf_counter() - began


def _following(home: str, client: ApiClient, seconds: float) -> dict[str, object]:
    """Measure the daemon while a job writes 50 MB/s, with and without a follower."""
    found: dict[str, object] = {}
    for name, follows in (("alone", False), ("followed", True)):
        told = Path(home) / f"rate.{name}"
        argv = [sys.executable, "-c", WRITER, str(WRITES_MB_S), str(seconds), str(told)]
        done = subprocess.run(
            [sys.executable, "-m", "grassq", "enqueue", "-q", "--", *argv],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        job = done.stdout.strip()
        until(lambda job=job: client.one_job(job)["state"] == "running", "start of the writer", START_S)  # type: ignore[misc]
        pid = int(client.info()["pid"])
        follower = None
        if follows:
            follower = subprocess.Popen([sys.executable, "-m", "grassq", "log", "-f", job], stdout=subprocess.DEVNULL)
        time.sleep(1.0)
        cpu, began = _cpu_s(pid), time.perf_counter()
        time.sleep(seconds - 2.5)
        share = (_cpu_s(pid) - cpu) / (time.perf_counter() - began)
        until(told.exists, "end of the writer", START_S)
        until(lambda job=job: client.one_job(job)["state"] == "succeeded", "end of the job", START_S)  # type: ignore[misc]
        if follower is not None:
            began = time.perf_counter()
            follower.wait(START_S)
            found["follower_behind_s"] = round(time.perf_counter() - began, 2)
        rate, slowest = map(float, told.read_text().split())
        found |= {f"writer_mb_s_{name}": round(rate, 1), f"writer_slowest_write_ms_{name}": round(slowest, 1)}
        found[f"daemon_share_of_a_core_{name}"] = round(share, 3)
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _skim_rate() -> float:
    block = (b"x" * 99 + b"\n") * 2600
    screen, began = Screen(), time.process_time()
    for _ in range(500):
        screen.skim(block)
    return 500 * len(block) / (time.process_time() - began) / 1e6


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench log", description=__doc__)
    parser.add_argument("--gigabytes", metavar="N", type=float, default=1.0, help="size of the log (default 1)")
    parser.add_argument("--seconds", metavar="S", type=float, default=FOLLOWED_S, help="write 50 MB/s for this long")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if not 0.05 <= arguments.gigabytes <= 8 or not 4 <= arguments.seconds <= 600:
        parser.error("--gigabytes is from 0.05 to 8, --seconds from 4 to 600")
    load = os.getloadavg()[0]
    found = measure(arguments.gigabytes, arguments.seconds)
    about = machine(load_before=load)
    print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    for name, value in found.items():
        print(f"{name.replace('_', ' '):<36} {value}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": about, **found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
