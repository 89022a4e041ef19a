"""The local daemon against the plainest thing that does the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.homes import own_home
from bench.jobs import SLOTS, STAMP, STREAM_JOBS, WARM_UP, await_all, check_succeeded, program
from bench.table import Row
from grassq.home import Sender
from grassq.net.client import ApiClient as Requests
from grassq.net.client import Document
from grassq.sdk import Client

ENQUEUE_ROUNDS = 40
LATENCY_ROUNDS = 40
STREAM_ROUNDS = 3

#: What a person would do without Grass: the same commands, so many at a time.
XARGS = f"seq {STREAM_JOBS} | xargs -P{SLOTS} -n1 /bin/true"


def rows(part: int) -> list[Row]:
    """Every comparison, with a part of the rounds."""
    found = []
    for measure, times in (
        (enqueue, ENQUEUE_ROUNDS),
        (first_line, ENQUEUE_ROUNDS),
        (latency, LATENCY_ROUNDS),
        (stream, STREAM_ROUNDS),
    ):
        with own_home() as home:
            found.append(measure(home, max(1, times // part)))
    return found


def enqueue(home: str, rounds: int) -> Row:
    """One `grass enqueue` from the start of its process to its end, against a Python that does nothing."""
    grass = program("grass")
    ours, reference = [], []
    with Client(home) as client:
        for turn in range(WARM_UP + rounds):
            enqueued = timed([grass, "enqueue", "-q", "/bin/true"])
            # Until the job has ended, so that it stands in nobody's way.
            client.wait(*client.jobs("@"))
            nothing = timed([sys.executable, "-c", "pass"])
            if turn >= WARM_UP:
                ours.append(enqueued)
                reference.append(nothing)
    return Row("grass enqueue", "ms", ours, reference, "python -c pass")


def first_line(home: str, rounds: int) -> Row:
    """The first line of a `simple_hypersearch` over ten million points, against a Python that does nothing."""
    digits = [str(digit) for digit in range(10)]
    argv = [program("simple_hypersearch"), "{a}{b}{c}{d}{e}{f}{g}"]
    for name in "abcdefg":
        argv += ["-p", name, *digits]
    ours, reference = [], []
    for turn in range(WARM_UP + rounds):
        began = time.perf_counter()
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            took = (time.perf_counter() - began) * 1000
            process.kill()
        nothing = timed([sys.executable, "-c", "pass"])
        if turn >= WARM_UP:
            ours.append(took)
            reference.append(nothing)
    return Row("simple_hypersearch, first of 10,000,000 lines", "ms", ours, reference, "python -c pass")


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
    job: Document = {"command": ["/bin/true"], "queue": "bench", "request": {"lane": 1}}
    with Requests(home) as requests:
        requests.create_queue([b"bench", b"--lane=%d" % SLOTS], cwd=cwd)
        requests.submit([job] * 10, Sender(cwd, env, umask))
        await_all(requests)
        for _ in range(rounds):
            began = time.perf_counter()
            ids = requests.submit([job] * STREAM_JOBS, Sender(cwd, env, umask))["ids"]
            await_all(requests)
            ours.append((time.perf_counter() - began) * 1000)
            check_succeeded(requests, ids)
            reference.append(timed(["/bin/sh", "-c", XARGS]))
    return Row(f"{STREAM_JOBS} x /bin/true on {SLOTS} slots", "ms", ours, reference, XARGS, jobs=STREAM_JOBS)


def timed(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000
