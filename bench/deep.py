"""What a very long queue costs: the same questions to a daemon with an empty queue and with N jobs that are blocked.

The jobs want a device that another job holds. `python -m bench deep --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.homes import own_folder, own_home, until
from bench.limit import Programs, compiled
from bench.peers.base import IDLE_S, limit_s, stamps
from bench.table import machine
from grassq.net.client import Client as Requests
from grassq.sdk import Client

JOBS = 1_000_000
#: As many as are handed over at once.
CHUNK = 100_000
#: A smaller queue has this many chunks: two that find it empty and two that find it nearly full.
CHUNKS_LEAST = 4
ROUNDS = 30
WARM_UP = 3
RESTARTS = 3
#: `show` lists no more of those that wait, and no more of those that ended lately.
PAGE = 100
CAPACITY = "{cpu: 2, printer: 1}"
BLOCKED = {"printer": 1}
COMMAND_S = 600.0
#: A daemon is at rest that took less than this of a core for so long.
REST_S = 1.0
REST_PART = 0.05
REST_LIMIT_S = 300.0
T = TypeVar("T")
HEAD = ("WHAT", "UNIT", "EMPTY min", "median", "FULL min", "median", "max", "RATIO")


class Row(NamedTuple):
    """One figure: of the empty queue and of the full one."""

    name: str
    unit: str
    empty: list[float]
    full: list[float]
    #: Larger is better, so the ratio is turned around: above 1 is always worse.
    rate: bool = False

    @property
    def ratio(self) -> float | None:
        """How much worse the full queue is, by the medians."""
        if not self.empty or not self.full:
            return None
        empty, full = statistics.median(self.empty), statistics.median(self.full)
        return round(empty / full if self.rate else full / empty, 3)

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        empty = [_number(middle(self.empty)) if self.empty else "-" for middle in (min, statistics.median)]
        full = [_number(middle(self.full)) if self.full else "-" for middle in (min, statistics.median, max)]
        return (self.name, self.unit, *empty, *full, "-" if self.ratio is None else f"{self.ratio:.2f}")

    def document(self) -> dict[str, object]:
        """The row as data."""
        return {**self._asdict(), "ratio": self.ratio}


Figures = dict[str, list[float]]


class Queue:
    """A daemon in a home of its own, whose only printer is held."""

    def __init__(self, home: str, folder: Path, programs: Programs) -> None:
        self.home, self._folder, self._programs = home, folder, programs
        (Path(home) / "grass.toml").write_text(f'capacity = "{CAPACITY}"\n')
        self._stack = ExitStack()
        self._files = 0
        self.client = self._stack.enter_context(Client(home))
        self.requests = self._stack.enter_context(Requests(home))
        self._holder = self.client.submit(["sleep", "1000000"], request=BLOCKED)
        until(lambda: self._holder.state == "running", "running holder of the printer")
        #: Each line is another, as those of a person would be.
        self._lines = 0

    def close(self) -> None:
        """End the job that holds the printer; every other one is cancelled before it could start."""
        self.requests.pause()
        self._holder.kill(grace_s=0)
        until(self._holder.done, "end of the holder")
        self._stack.close()

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return int(self.requests.info()["pid"])

    def resident(self) -> int:
        """Bytes the daemon has in memory, once it is at rest."""
        self.rest()
        return resident(self.pid)

    def rest(self) -> None:
        """Wait until the daemon has nothing left to do."""
        pid = self.pid
        until(lambda: _share(pid) < REST_PART, "daemon at rest", REST_LIMIT_S)

    def figures(self, rounds: int = ROUNDS) -> Figures:
        """Milliseconds of each question, so many times."""
        found: Figures = {}
        for turn in range(WARM_UP + rounds):
            for name, took in self._round():
                if turn >= WARM_UP:
                    found.setdefault(name, []).append(took)
        found["show, as much to list"] = self._pages(rounds)
        return found

    def _pages(self, rounds: int) -> list[float]:
        """`show` where it has as much to list as it ever has, so that what is compared is the same answer."""
        jobs = self.client.submit_many([["true"]] * PAGE * 2, request=BLOCKED)
        ended, rest = jobs[:PAGE], jobs[PAGE:]
        self.requests.kill([f"{ended[0].id}-{ended[-1].id}"])
        found = []
        for _ in range(rounds):
            time.sleep(IDLE_S)
            found.append(_timed(self.requests.show)[0])
        self.requests.kill([f"{rest[0].id}-{rest[-1].id}"])
        return found

    def _round(self) -> list[tuple[str, float]]:
        time.sleep(IDLE_S)
        submitted, job = _timed(lambda: self.client.submit(["true"], request=BLOCKED))
        selector = [str(job.id)]
        shown, _ = _timed(self.requests.show)
        one, _ = _timed(lambda: self.requests.show(selector))
        why, _ = _timed(lambda: self.requests.why(selector))
        killed, _ = _timed(lambda: self.requests.kill(selector))
        started = self._start()
        names = ("submit", "show", "show ID", "why ID", "kill ID", "submit to first instruction")
        return list(zip(names, (submitted, shown, one, why, killed, started), strict=True))

    def _start(self) -> float:
        self._files += 1
        file = self._folder / f"stamps.{self._files}"
        time.sleep(IDLE_S)
        began = time.monotonic_ns()
        job = self.client.submit([*self._programs.stamp, str(file)], request={"cpu": 1})
        [at] = stamps(file, 1)
        job.result(timeout=limit_s(1))
        return (at - began) / 1e6

    def bulk_sdk(self, count: int) -> float:
        """Jobs per second that `submit_many` stores."""
        lines = self._new_lines(count)
        took, jobs = _timed(lambda: self.client.submit_many(lines, request=BLOCKED))
        return _rate(count, len(jobs), took)

    def bulk_cli(self, count: int) -> float:
        """Jobs per second that `grass enqueue --stdin` stores, the start of its process included."""
        text = "".join(f"{line}\n" for line in self._new_lines(count))
        argv = [*_grass("enqueue"), "-q", "--printer=1", "--stdin"]
        took, done = _timed(
            lambda: subprocess.run(argv, input=text, stdout=subprocess.PIPE, text=True, timeout=COMMAND_S, check=True)
        )
        first, _, last = done.stdout.strip().partition("-")
        return _rate(count, int(last) - int(first) + 1, took)

    def _new_lines(self, count: int) -> list[str]:
        began = self._lines
        self._lines += count
        return [f"true --seed {number}" for number in range(began, began + count)]

    def restart(self) -> float:
        """Seconds from `grass start` on the stopped daemon to the end of a `grass show` that was answered."""
        run("stop")
        self.requests.close()
        self.client.close()
        began = time.perf_counter()
        # Not checked: it gives up on a daemon that takes long, and what counts is when one answers.
        subprocess.run(_grass("start"), stdout=subprocess.DEVNULL, timeout=COMMAND_S, check=False)
        until(_shows, "answer of `grass show`", COMMAND_S)
        return time.perf_counter() - began


def _shows() -> bool:
    nowhere = subprocess.DEVNULL
    done = subprocess.run(_grass("show"), stdout=nowhere, stderr=nowhere, timeout=COMMAND_S, check=False)
    return done.returncode == 0


def run(*words: str) -> None:
    """Run `grass WORDS`, which must succeed."""
    subprocess.run(_grass(*words), stdout=subprocess.DEVNULL, timeout=COMMAND_S, check=True)


def resident(pid: int) -> int:
    """Bytes a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ticks(pid: int) -> int:
    """Clock ticks a process has computed, by itself and for itself in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _share(pid: int) -> float:
    before, began = ticks(pid), time.monotonic()
    time.sleep(REST_S)
    return (ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)


def measure(jobs: int) -> list[Row]:
    """Every row."""
    chunk = max(1, min(CHUNK, jobs // CHUNKS_LEAST))
    with own_home() as home, own_folder() as folder, ExitStack() as stack:
        queue = Queue(home, folder, compiled(folder))
        stack.callback(queue.close)
        _say("empty queue")
        empty, light = queue.figures(), queue.resident()
        restarts = [queue.restart() for _ in range(RESTARTS)]
        fresh = queue.resident()
        rates: dict[str, Figures] = {"empty": _bulk(queue, chunk)}
        left = jobs - 4 * chunk
        while left > 0:
            queue.bulk_sdk(min(chunk, left))
            left -= chunk
            _say(f"{jobs - max(left, 0) - 2 * chunk:,} jobs queued")
        rates["full"] = _bulk(queue, chunk)
        heavy = queue.resident()
        _say(f"{jobs:,} jobs queued")
        full = queue.figures()
        restarts_full = [queue.restart() for _ in range(RESTARTS)]
        heavy_fresh = queue.resident()
    rows = [Row(name, "ms", empty[name], full[name]) for name in empty]
    rows += [Row(name, "jobs/s", rates["empty"][name], rates["full"][name], rate=True) for name in rates["empty"]]
    rows.append(Row("grass start until grass show answers", "s", restarts, restarts_full))
    for name, less, more in (("daemon RSS", light, heavy), ("daemon RSS, started anew", fresh, heavy_fresh)):
        rows.append(Row(name, "MiB", [less / 2**20], [more / 2**20]))
        rows.append(Row(f"{name}, for each job", "bytes", [], [(more - less) / jobs]))
    return rows


def _bulk(queue: Queue, chunk: int) -> Figures:
    return {f"submit_many of {chunk:,}": [queue.bulk_sdk(chunk)], f"--stdin of {chunk:,}": [queue.bulk_cli(chunk)]}


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench deep", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"so many are queued (default {JOBS:,})")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < CHUNKS_LEAST:
        parser.error(f"--jobs is at least {CHUNKS_LEAST}")
    load = os.getloadavg()[0]
    rows = measure(arguments.jobs)
    about = {**machine(), "load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(f"\nempty: nothing queued; full: {arguments.jobs:,} jobs queued that are blocked; above 1 is worse\n")
    _table([HEAD, *(row.cells() for row in rows)])
    if arguments.json:
        document = {"machine": about, "jobs": arguments.jobs, "rows": [row.document() for row in rows]}
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _table(lines: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _grass(*words: str) -> list[str]:
    return [sys.executable, "-m", "grassq", *words]


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    answer = call()
    return (time.perf_counter() - began) * 1000, answer


def _rate(wanted: int, stored: int, took_ms: float) -> float:
    if stored != wanted:
        raise SystemExit(f"only {stored} of {wanted} jobs were stored: the figures mean nothing")
    return wanted * 1000 / took_ms


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
