"""A broker and a worker of its own, over TLS on loopback, against the local daemon; and a command to the broker."""

from __future__ import annotations

import os
import sys
import time

from bench.homes import Members, free_address
from bench.jobs import SLOTS, STAMP, STREAM_JOBS, WARM_UP, await_all, check_succeeded, program
from bench.local import timed
from bench.table import Row
from grassq.home import Sender
from grassq.net.client import ApiClient as Requests
from grassq.net.client import Document
from grassq.sdk import Client

ENQUEUE_ROUNDS = 40
LATENCY_ROUNDS = 40
STREAM_ROUNDS = 5
AGAINST = "the local daemon"


def rows(part: int) -> list[Row]:
    """Both comparisons, with a part of the rounds."""
    with Members() as members:
        address = free_address()
        broker = members.member("broker")
        broker.serve("--bind", address, "--no-worker")
        worker = members.worker(broker, address)
        person = members.person(broker)
        local = members.member("local")
        local.serve()
        for member in (worker, local):
            with member.client() as client:
                # The same queues on both sides: jobs from other machines need one with a command of its own.
                where = os.fsencode(members.folder)
                client.create_queue([b"bench", b"--lane=%d" % SLOTS, b"/bin/true"], cwd=where)
                client.create_queue([b"stamp", *map(os.fsencode, STAMP)], cwd=where)
        homes = str(local.home), str(person.home)
        return [
            enqueue(str(person.home), address, max(1, ENQUEUE_ROUNDS // part)),
            latency(*homes, address, max(1, LATENCY_ROUNDS // part)),
            stream(*homes, address, max(1, STREAM_ROUNDS // part)),
        ]


def enqueue(home: str, address: str, rounds: int) -> Row:
    """One `grass enqueue --broker` from the start of its process to its end, against a Python that does nothing."""
    os.environ["GRASS_HOME"] = home
    words = [program("grass"), "enqueue", "-q", "--broker", address, "bench", "go"]
    ours, reference = [], []
    with Client(home, broker=address) as client:
        for turn in range(WARM_UP + rounds):
            enqueued = timed(words)
            # Until the job has ended, so that it stands in nobody's way.
            client.wait(*client.jobs("@"))
            nothing = timed([sys.executable, "-c", "pass"])
            if turn >= WARM_UP:
                ours.append(enqueued)
                reference.append(nothing)
    return Row("grass enqueue, to a broker", "ms", ours, reference, "python -c pass")


def latency(local: str, person: str, address: str, rounds: int) -> Row:
    """From `Client.submit` to the job's first instruction."""
    ours, reference = [], []
    with Client(person, broker=address) as far, Client(local, broker="local") as near:
        for turn in range(WARM_UP + rounds):
            through, direct = _stamped(far), _stamped(near)
            if turn >= WARM_UP:
                ours.append(through)
                reference.append(direct)
    return Row("submit to first instruction, by a broker", "ms", ours, reference, AGAINST)


def _stamped(client: Client) -> float:
    began = time.monotonic_ns()
    job = client.submit(["go"], queue="stamp")
    job.result()
    return (int(job.log()) - began) / 1e6


def stream(local: str, person: str, address: str, rounds: int) -> Row:
    """From one submission of many short jobs to the last recorded exit."""
    ours, reference = [], []
    with Requests(person, broker=address) as far, Requests(local, autostart=False) as near:
        for requests in (far, near):
            _streamed(requests, 10)
        for _ in range(rounds):
            ours.append(_streamed(far, STREAM_JOBS))
            reference.append(_streamed(near, STREAM_JOBS))
    name = f"{STREAM_JOBS} x /bin/true on {SLOTS} slots, by a broker"
    return Row(name, "ms", ours, reference, AGAINST, jobs=STREAM_JOBS)


def _streamed(requests: Requests, count: int) -> float:
    job: Document = {"command": ["go"], "queue": "bench", "request": {"lane": 1}}
    env = {b"PATH": os.fsencode(os.defpath)}
    began = time.perf_counter()
    ids = requests.submit([job] * count, Sender(b"/", env, 0o077))["ids"]
    await_all(requests)
    took = (time.perf_counter() - began) * 1000
    check_succeeded(requests, ids)
    return took
