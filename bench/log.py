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

from bench.blocked import Asker
from bench.homes import own_home, until
from bench.table import tell_figures
from grassq.core.term.screen import Screen
from grassq.net.client import ApiClient
from grassq.net.encoding import query
from grassq.net.log_lines import ask_lines

#: `seq` begins here, so that every line has ten bytes with its newline.
FIRST = 100_000_000
LINE_BYTES = 10
PLACES = 30
#: How often each search is measured.
SEARCHES = 5
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
        found |= _searches(home, client, lines)
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


def _searches(home: str, client: ApiClient, lines: int) -> dict[str, object]:
    """Measure searches in the indexed log in turns with `grep`, and what they cost the daemon meanwhile."""
    middle = str(FIRST + lines // 2)
    path = str(ask_lines(client, 1, line=1)["path"])
    first = {"limit": 1, "stop": 1}
    took: dict[str, list[float]] = {}
    pid = int(client.info()["pid"])
    memory = _memory_mb(pid)
    with Asker(home, 1) as asker:
        asker.worst()
        for _ in range(SEARCHES):
            questions: dict[str, dict[str, object]] = {
                "hit_in_the_middle": {"q": middle, **first},
                "hit_in_the_middle_any_case": {"q": middle, "i": 1, **first},
                "hit_in_the_middle_backwards": {"q": middle, "i": 1, "before": lines, **first},
                "near_hit": {"q": str(FIRST + 1000), "i": 1, **first},
                "no_hit": {"q": "no such text"},
                "no_hit_any_case": {"q": "no such text", "i": 1},
            }
            for name, asked in questions.items():
                took.setdefault(name, []).append(_search(client, **asked))
            for name, options in {"grep_to_the_middle": ["-m1"], "grep_to_the_middle_any_case": ["-m1", "-i"]}.items():
                began = time.perf_counter()
                subprocess.run(["grep", *options, middle, path], stdout=subprocess.DEVNULL, check=True)
                took.setdefault(name, []).append(time.perf_counter() - began)
        others = asker.worst()
    took["folded_last_tenth"] = [_search(client, q=f"^{middle[:-1]}[05]$", regex=1, after=lines * 9 // 10)]
    found: dict[str, object] = {f"{name}_ms": round(statistics.median(each) * 1e3) for name, each in took.items()}
    found["folded_mb_s"] = round(lines * LINE_BYTES / 10 / took["folded_last_tenth"][0] / 1e6)
    found["others_ms_longest_during_searches"] = round(others * 1e3, 1)
    found["daemon_grew_mb_during_searches"] = round(_memory_mb(pid) - memory, 1)
    return found


def _search(client: ApiClient, **asked: object) -> float:
    """Return the seconds to the end of the answer."""
    began = time.perf_counter()
    parts, connection = client.stream("/v1/jobs/1/log/search" + query(asked.items()), 600.0)
    last = json.loads(b"".join(parts).splitlines()[-1])
    took = time.perf_counter() - began
    connection.close()
    if "error" in last or (last["total"] < 1) == ("stop" in asked):
        raise SystemExit(f"{asked}: {last}")
    return took


def _memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


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
    tell_figures(measure(arguments.gigabytes, arguments.seconds), load, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
