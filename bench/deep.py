"""What a very long queue costs: the same questions to two daemons in turns, one with N jobs that are blocked.

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
from grassq.net.client import ApiClient as Requests
from grassq.sdk import Client

JOBS = 1_000_000
#: As many as are handed over at once.
CHUNK = 100_000
#: The last ones, each timed beside one for a queue that is empty; a smaller queue has only these.
CHUNKS_BESIDE = 4
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
HEAD = ("WHAT", "UNIT", "EMPTY min", "median", "FULL min", "median", "max", "RATIO min", "median")


class Row(NamedTuple):
    """One figure: of the empty queue and of the full one."""

    name: str
    unit: str
    empty: list[float]
    full: list[float]
    #: Larger is better, so the ratio is turned around: above 1 is always worse.
    rate: bool = False

    def ratio(self, middle: Callable[[list[float]], float] = statistics.median) -> float | None:
        """How much worse the full queue is."""
        if not self.empty or not self.full:
            return None
        empty, full = middle(self.empty), middle(self.full)
        return round(empty / full if self.rate else full / empty, 3)

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        empty = [_number(middle(self.empty)) if self.empty else "-" for middle in (min, statistics.median)]
        full = [_number(middle(self.full)) if self.full else "-" for middle in (min, statistics.median, max)]
        ratios = ["-" if (ratio := self.ratio(each)) is None else f"{ratio:.2f}" for each in (min, statistics.median)]
        return (self.name, self.unit, *empty, *full, *ratios)

    def document(self) -> dict[str, object]:
        """The row as data."""
        return {**self._asdict(), "ratio_of_minima": self.ratio(min), "ratio_of_medians": self.ratio()}


Figures = dict[str, list[float]]
Round = Callable[["Queue"], list[tuple[str, float]]]


class Page(NamedTuple):
    """The first and the last of some jobs that wait."""

    first: int
    last: int


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
        self.requests.change("pause")
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

    def check(self, jobs: int) -> None:
        """Figures of a queue that is not as long as it should be would mean nothing."""
        if (queued := self.requests.show()["totals"].get("queued")) != jobs:
            raise SystemExit(f"{queued} of {jobs} jobs are queued: the figures mean nothing")

    def pages(self) -> Page:
        """Fill what `show` lists as far as it ever is, so that two queues have the same to answer."""
        jobs = self.client.submit_many([["true"]] * PAGE * 2, request=BLOCKED)
        self.requests.kill([f"{jobs[0].id}-{jobs[PAGE - 1].id}"])
        return Page(jobs[PAGE].id, jobs[-1].id)

    def clear(self, page: Page) -> None:
        """Take the jobs of a page away again."""
        self.requests.kill([f"{page.first}-{page.last}"])

    def show_page(self) -> list[tuple[str, float]]:
        """Milliseconds of a `show`."""
        time.sleep(IDLE_S)
        return [("show, as much to list", _timed(self.requests.show)[0])]

    def round(self) -> list[tuple[str, float]]:
        """Milliseconds of each question."""
        time.sleep(IDLE_S)
        submitted, job = _timed(lambda: self.client.submit(["true"], request=BLOCKED))
        selector = [str(job.id)]
        shown, _ = _timed(self.requests.show)
        one, _ = _timed(lambda: self.requests.show(selector))
        why, _ = _timed(lambda: self.requests.get("why", selector))
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
        argv = ["enqueue", "-q", "--printer=1", "--stdin"]
        took, done = _timed(lambda: self.run(argv, input=text, check=True))
        first, _, last = done.stdout.strip().partition("-")
        return _rate(count, int(last) - int(first) + 1, took)

    def _new_lines(self, count: int) -> list[str]:
        began = self._lines
        self._lines += count
        return [f"true --seed {number}" for number in range(began, began + count)]

    def restart(self) -> float:
        """Seconds from `grass start` on the stopped daemon to the end of a `grass show` that was answered."""
        self.run(["stop"], check=True)
        self.requests.close()
        self.client.close()
        began = time.perf_counter()
        # Not checked: it gives up on a daemon that takes long, and what counts is when one answers.
        self.run(["start"])
        until(lambda: self.run(["show"]).returncode == 0, "answer of `grass show`", COMMAND_S)
        return time.perf_counter() - began

    def run(self, words: list[str], input: str = "", check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `grass WORDS`."""
        argv = [sys.executable, "-m", "grassq", *words]
        env = {**os.environ, "GRASS_HOME": self.home}
        return subprocess.run(
            argv, env=env, input=input, capture_output=True, text=True, timeout=COMMAND_S, check=check
        )


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
    chunk = max(1, min(CHUNK, jobs // CHUNKS_BESIDE))
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder())
        programs = compiled(folder)
        queues = []
        for name in ("empty", "full"):
            (folder / name).mkdir()
            queue = Queue(stack.enter_context(own_home()), folder / name, programs)
            stack.callback(queue.close)
            queues.append(queue)
        empty, full = queues
        in_turns(queues, Queue.round, WARM_UP)
        light = full.resident()
        rates = _fill(full, jobs, chunk, programs)
        heavy = full.resident()
        _say("the same questions to both")
        answers = in_turns(queues, Queue.round, ROUNDS)
        pages = [queue.pages() for queue in queues]
        answers += in_turns(queues, Queue.show_page, ROUNDS)
        for queue, page in zip(queues, pages, strict=True):
            queue.clear(page)
        _say("restarts of both")
        restarts = in_turns(queues, lambda queue: [("grass start until grass show answers", queue.restart())], RESTARTS)
        full.check(jobs)
        anew = Row("daemon RSS, started anew", "MiB", [empty.resident() / 2**20], [full.resident() / 2**20])
    return [
        *answers,
        *rates,
        *(row._replace(unit="s") for row in restarts),
        *(Row("daemon RSS", "MiB", [light / 2**20], [heavy / 2**20]), anew),
        Row("daemon RSS, for each job", "bytes", [], [(heavy - light) / jobs]),
        Row("daemon RSS, started anew, for each job", "bytes", [], [(anew.full[0] - anew.empty[0]) * 2**20 / jobs]),
    ]


def in_turns(queues: Sequence[Queue], one: Round, rounds: int) -> list[Row]:
    """Ask the empty queue and the full one by turns: whatever else the machine does, it does to both."""
    found: list[Figures] = [{} for _ in queues]
    for _ in range(rounds):
        for queue, figures in zip(queues, found, strict=True):
            for name, took in one(queue):
                figures.setdefault(name, []).append(took)
    empty, full = found
    return [Row(name, "ms", empty[name], full[name]) for name in empty]


def _fill(queue: Queue, jobs: int, chunk: int, programs: Programs) -> list[Row]:
    """Queue the jobs; how fast the last of them went in, beside as many into queues that were empty."""
    left = jobs - CHUNKS_BESIDE * chunk
    while left > 0:
        queue.bulk_sdk(min(chunk, left))
        left -= chunk
        _say(f"{jobs - CHUNKS_BESIDE * chunk - max(left, 0):,} jobs queued")
    empty: Figures = {}
    full: Figures = {}
    for _ in range(CHUNKS_BESIDE // 2):
        with own_home() as home, ExitStack() as stack:
            fresh = Queue(home, Path(home), programs)
            stack.callback(fresh.close)
            for name, submit in (
                (f"submit_many of {chunk:,}", Queue.bulk_sdk),
                (f"--stdin of {chunk:,}", Queue.bulk_cli),
            ):
                for figures, each in ((empty, fresh), (full, queue)):
                    each.rest()
                    figures.setdefault(name, []).append(submit(each, chunk))
    queue.check(jobs)
    _say(f"{jobs:,} jobs queued")
    return [Row(name, "jobs/s", empty[name], full[name], rate=True) for name in empty]


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench deep", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"so many are queued (default {JOBS:,})")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < CHUNKS_BESIDE:
        parser.error(f"--jobs is at least {CHUNKS_BESIDE}")
    load = os.getloadavg()[0]
    rows = measure(arguments.jobs)
    about = machine(load_before=load)
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
