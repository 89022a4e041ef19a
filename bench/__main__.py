"""Measures Grass against the plainest thing that does the same, interleaved in one run, and prints the ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from grassq import __version__
from grassq.net.client import Client as Requests
from grassq.net.client import Document
from grassq.sdk import Client

ENQUEUE_ROUNDS = 40
LATENCY_ROUNDS = 40
STREAM_ROUNDS = 3
STREAM_JOBS = 1000
SLOTS = 2
#: Discarded at the start: the first call starts the daemon, the next ones warm caches.
WARM_UP = 3
STREAM_TIMEOUT_S = 60.0

#: The job of the latency measurement: its first instruction writes the time. -I -S: as little start as Python has.
STAMP = (sys.executable, "-I", "-S", "-c", "import time; print(time.monotonic_ns())")
#: What a person would do without Grass: the same commands, so many at a time.
XARGS = f"seq {STREAM_JOBS} | xargs -P{SLOTS} -n1 /bin/true"


class Row(NamedTuple):
    """One comparison: times of ours and of the reference, in milliseconds."""

    name: str
    unit: str
    ours: list[float]
    reference: list[float]
    against: str

    def document(self) -> dict[str, object]:
        """The row as data, the medians' ratio included."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": _digest(self.ours),
            "reference": _digest(self.reference),
            "against": self.against,
            "ratio_of_minima": round(min(self.ours) / min(self.reference), 3),
            "ratio_of_medians": round(statistics.median(self.ours) / statistics.median(self.reference), 3),
        }


def main() -> int:
    """Run every comparison and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of Grass, as ratios in one run.")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds: to see that it works")
    arguments = parser.parse_args()
    rounds = 10 if arguments.quick else 1
    rows = []
    for measure, times in ((enqueue, ENQUEUE_ROUNDS), (latency, LATENCY_ROUNDS), (stream, STREAM_ROUNDS)):
        with own_home() as home:
            rows.append(measure(home, max(1, times // rounds)))
    _print(rows)
    if arguments.json:
        document = {"machine": _machine(), "rows": [row.document() for row in rows]}
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")
    return 0


def enqueue(home: str, rounds: int) -> Row:
    """One `grass enqueue` from the start of its process to its end, against a Python that does nothing."""
    grass = str(Path(sys.executable).with_name("grass"))
    if not Path(grass).exists():
        raise SystemExit(f"there is no {grass}; install Grass into this environment: pip install .")
    ours, reference = [], []
    with Client(home) as client:
        for turn in range(WARM_UP + rounds):
            enqueued = _timed([grass, "enqueue", "-q", "/bin/true"])
            # Until the job has ended, so that it stands in nobody's way.
            client.wait(*client.jobs("@"))
            nothing = _timed([sys.executable, "-c", "pass"])
            if turn >= WARM_UP:
                ours.append(enqueued)
                reference.append(nothing)
    return Row("grass enqueue", "ms", ours, reference, "python -c pass")


def latency(home: str, rounds: int) -> Row:
    """From `Client.submit` to the job's first instruction, against starting the same program directly."""
    ours, reference = [], []
    with Client(home) as client:
        for turn in range(WARM_UP + rounds):
            began = time.monotonic_ns()
            job = client.submit(STAMP)
            job.result()
            through_grass = (int(job.log()) - began) / 1e6
            began = time.monotonic_ns()
            direct = (int(subprocess.run(STAMP, stdout=subprocess.PIPE, check=True).stdout) - began) / 1e6
            if turn >= WARM_UP:
                ours.append(through_grass)
                reference.append(direct)
    return Row("submit to first instruction", "ms", ours, reference, "the same program, started directly")


def stream(home: str, rounds: int) -> Row:
    """From one submission of many short jobs to the last recorded exit, against xargs."""
    ours, reference = [], []
    cwd, umask = os.fsencode(home), 0o077
    env = {b"PATH": os.fsencode(os.defpath)}
    job: Document = {"command": ["/bin/true"], "queue": "bench", "request": {"slot": 1}}
    with Requests(home) as requests:
        requests.create_queue([b"bench", b"--slot=%d" % SLOTS], cwd=cwd)
        requests.submit([job] * 10, cwd=cwd, env=env, umask=umask)
        _await_all(requests)
        for _ in range(rounds):
            began = time.perf_counter()
            ids = requests.submit([job] * STREAM_JOBS, cwd=cwd, env=env, umask=umask)["ids"]
            _await_all(requests)
            ours.append((time.perf_counter() - began) * 1000)
            _check_succeeded(requests, ids)
            reference.append(_timed(["/bin/sh", "-c", XARGS]))
    return Row(f"{STREAM_JOBS} x /bin/true on {SLOTS} slots", "ms", ours, reference, XARGS)


@contextmanager
def own_home() -> Iterator[str]:
    """A home for one measurement, in this process's environment; at the end its daemon and its files go."""
    home = tempfile.mkdtemp(prefix="grass-bench.")
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("GRASS_", "PYTHON"))]:
        # PYTHONDONTWRITEBYTECODE would have every call compile Grass anew; no installed program does that.
        del os.environ[name]
    os.environ["GRASS_HOME"] = home
    try:
        yield home
    finally:
        # The command, not the request: it returns when the daemon has ended and nothing is written any more.
        subprocess.run([sys.executable, "-m", "grassq", "stop"], stdout=subprocess.DEVNULL, check=False)
        shutil.rmtree(home, ignore_errors=True)
        os.environ.clear()
        os.environ.update(kept)


def _timed(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def _await_all(requests: Requests) -> None:
    deadline = time.monotonic() + STREAM_TIMEOUT_S
    while not requests.wait(["queue:bench"], timeout_s=30)["done"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"the jobs have not ended after {STREAM_TIMEOUT_S:g} s")


def _check_succeeded(requests: Requests, ids: list[int]) -> None:
    jobs = requests.show([f"{ids[0]}-{ids[-1]}"])["jobs"]
    good = sum(job["state"] == "succeeded" and job["exit_code"] == 0 for job in jobs)
    if good != len(ids):
        raise SystemExit(f"only {good} of {len(ids)} jobs succeeded: the figures mean nothing")


def _digest(times: list[float]) -> dict[str, float | int]:
    return {"min": round(min(times), 3), "median": round(statistics.median(times), 3), "count": len(times)}


def _machine() -> dict[str, object]:
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": release.get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        "grassq": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def _print(rows: list[Row]) -> None:
    print(", ".join(f"{name} {value}" for name, value in _machine().items()))
    print()
    lines: list[tuple[str, ...]] = [
        ("WHAT", "OURS min", "median", "REFERENCE min", "median", "RATIO min", "median", "ROUNDS")
    ]
    for row in rows:
        document = row.document()
        ours, reference = _digest(row.ours), _digest(row.reference)
        times = [f"{digest[key]:.1f} {row.unit}" for digest in (ours, reference) for key in ("min", "median")]
        ratios = [f"{document[key]:.2f}" for key in ("ratio_of_minima", "ratio_of_medians")]
        lines.append((row.name, *times, *ratios, str(len(row.ours))))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()
    for row in rows:
        print(f"{row.name}: against {row.against}")


if __name__ == "__main__":
    sys.exit(main())
