"""What one TAB costs: `grass __complete` beside `python -c pass`, in turns, with a short and with a long queue."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.homes import own_home

ROUNDS = 40
FEW_JOBS, JOBS = 2000, 100_000
#: What the shell may take at every TAB, with the start of the interpreter, in ms.
BAR_MS = 60.0
LINES = (
    ("a command", ("ki",)),
    ("an option", ("enqueue", "--pr")),
    ("a job by its id", ("kill", "12")),
    ("a job, a queue or a name", ("show", "")),
    ("a name", ("log", "swe")),
)


def main(argv: Sequence[str]) -> int:
    """Measure and print the table; return 1 if a line is above the bar."""
    parser = argparse.ArgumentParser(prog="python -m bench completion", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many jobs the long queue has (default: {JOBS})")
    arguments = parser.parse_args(argv)
    grass = [sys.executable, str(Path(sys.executable).parent / "grass"), "__complete"]
    plain = [sys.executable, "-c", "pass"]
    worst = 0.0
    print(f"median of {arguments.rounds} rounds, in turns; in brackets the slowest of ten")
    with own_home():
        for jobs in (FEW_JOBS, arguments.jobs):
            _fill(jobs)
            for name, words in LINES:
                ours, theirs, late = _in_turns([*grass, *words], plain, arguments.rounds)
                middle, base = statistics.median(ours), statistics.median(theirs)
                worst = max(worst, middle)
                slow = sorted(ours)[len(ours) * 9 // 10]
                print(
                    f"{jobs:>7} jobs  {name:<26}{middle:6.1f} ms ({slow:.1f})  python -c pass {base:5.1f} ms"
                    f"  ratio {middle / base:.2f}" + (f"  {late} without the daemon's words" if late else "")
                )
    print(f"worst {worst:.1f} ms; the bar is {BAR_MS:g} ms")
    return int(worst > BAR_MS)


def _fill(jobs: int) -> None:
    """Start the daemon, and put jobs into its queue, of which none starts; a thousand have each name."""
    said = "".join(f"sleep {number}\n" for number in range(1000))
    _run("start")
    for part in range(jobs // 1000):
        _run("enqueue", "--stdin", "--hold", "--name", f"sweep-{part}", said=said)


def _run(*words: str, said: str | None = None) -> None:
    argv = [sys.executable, "-m", "grassq", *words]
    subprocess.run(argv, input=said, text=True, stdout=subprocess.DEVNULL, check=True)


def _in_turns(ours: list[str], theirs: list[str], rounds: int) -> tuple[list[float], list[float], int]:
    """Return the times of two commands in ms, and how often the daemon was too slow for ours.

    They run in turns: what slows the machine down slows both down.
    """
    times: tuple[list[float], list[float]] = ([], [])
    late = 0
    for _ in range(rounds):
        for argv, kept in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
            kept.append((time.perf_counter() - began) * 1000)
            late += argv is ours and done.stdout.count(b"\n") < 2
    return *times, late
