"""What following logs on another machine costs: frames of silent logs, and how late a line is shown.

`python -m bench follow --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.counting import read
from bench.homes import Member, Members, free_address, until
from bench.table import tell_figures
from grassq.sdk import Client, Job

JOBS = 100
WATCHED_S = 30.0
#: After the followers started: each has asked for its log once by then.
SETTLE_S = 15.0
START_S = 120.0
LINES = 40
#: Prints the time, every third of a second, never in step with a poll.
WRITER = "import time\nfor n in range({lines}):\n    time.sleep(0.3 + 0.003 * n)\n    print(time.time(), flush=True)\n"


def measure(jobs: int, seconds: float) -> dict[str, object]:
    """Return all figures."""
    with Members() as members:
        address = free_address()
        broker = members.member("broker", counted=True)
        broker.serve("--bind", address, "--no-worker")
        worker = members.worker(broker, address, counted=True)
        worker.run("create-queue", "--capacity", f"{{lane: {jobs}}}", "--unsecure", "far")
        with Client(str(broker.home)) as client:
            silent = client.submit_many([["sleep", "1000000"]] * jobs, queue="far", request={"lane": 1})
            until(lambda: all(job.state == "running" for job in silent), f"{jobs} running jobs", START_S)
            frames = _frames(broker, worker, silent, seconds)
            silent[0].kill(grace_s=0)
            delays = _delays(broker, client)
            for job in silent[1:]:
                job.kill(grace_s=0)
            until(lambda: all(job.done() for job in silent), "end of the jobs", START_S)
    return {
        "followed": jobs,
        "frames_per_s": round(frames, 1),
        "lines": len(delays),
        "line_shown_after_ms_min": round(min(delays), 1),
        "line_shown_after_ms_median": round(statistics.median(delays), 1),
        "line_shown_after_ms_max": round(max(delays), 1),
    }


def _follow(broker: Member, job: Job, out: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "grassq", "log", "-f", str(job.id)]
    return subprocess.Popen(argv, env={**os.environ, "GRASS_HOME": str(broker.home)}, stdout=out, text=True)


def _frames(broker: Member, worker: Member, jobs: Sequence[Job], seconds: float) -> float:
    """Return the frames a second in both directions while all logs are followed."""
    with ExitStack() as stack:
        for job in jobs:
            follower = stack.enter_context(_follow(broker, job, subprocess.DEVNULL))
            stack.callback(follower.terminate)
        time.sleep(SETTLE_S)
        before, began = read(broker.count) + read(worker.count), time.monotonic()
        time.sleep(seconds)
        after, took = read(broker.count) + read(worker.count), time.monotonic() - began
    return (after - before) / took


def _delays(broker: Member, client: Client) -> list[float]:
    """Return how many milliseconds after its printing each line of a log is shown."""
    job = client.submit([sys.executable, "-c", WRITER.format(lines=LINES)], queue="far", request={"lane": 1})
    with _follow(broker, job, subprocess.PIPE) as follower:
        assert follower.stdout is not None
        # The first line may be older than the follower.
        return [(time.time() - float(line)) * 1e3 for line in follower.stdout][1:]


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench follow", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"follow this many (default {JOBS})")
    parser.add_argument("--seconds", metavar="S", type=float, default=WATCHED_S, help="count frames for this long")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1 or not arguments.seconds > 0:
        parser.error("--jobs and --seconds are above 0")
    load = os.getloadavg()[0]
    tell_figures(measure(arguments.jobs, arguments.seconds), load, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
