"""log and follow: what a job wrote."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import sleep
from typing import Any

from grassq.cli import render
from grassq.cli.link import connect
from grassq.cli.screen import Screen
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, Unreachable
from grassq.net.client import FINAL_STATES, Broken, Client

RECONNECT_DELAY_S = 0.2
RECONNECT_DELAY_LIMIT_S = 2.0


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument("job", metavar="JOB", help="one job")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--out", action="store_const", dest="stream", const="out", help="stdout of a --split job")
    which.add_argument("--err", action="store_const", dest="stream", const="err", help="stderr of a --split job")
    parser.add_argument("--tail", metavar="N", type=int, help="only the last N lines")
    parser.add_argument("--attempt", metavar="N", type=int, help="of an earlier attempt")
    parser.add_argument("--raw", action="store_true", help="keep every escape sequence, also on a terminal")
    if name == "log":
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.set_defaults(run=log, **({"follow": True} if name == "follow" else {}))


def log(arguments: argparse.Namespace) -> int:
    """Write a job's log to stdout."""
    if arguments.tail is not None and arguments.tail < 0:
        raise BadInput("--tail takes a count of lines, 0 or more")
    with connect() as client:
        job = one_job(client, arguments.job)
        options = {"tail": arguments.tail, "attempt": arguments.attempt}
        streams = [arguments.stream] if arguments.stream else streams_of(job)
        put = writer(1, raw=arguments.raw)
        if not arguments.follow:
            for stream in streams:
                for part in client.log(job["id"], stream=stream, **options):
                    put(part)
            put(b"")
            return EXIT_OK
        return follow(client, job, {stream: put for stream in streams}, **options)


def one_job(client: Client, selector: str) -> dict[str, Any]:
    """The one job a selector names."""
    jobs: list[dict[str, Any]] = client.show([selector])["jobs"]
    if len(jobs) != 1:
        raise BadInput(f"'{selector}' names {len(jobs)} jobs; name one")
    return jobs[0]


def streams_of(job: dict[str, Any]) -> list[str]:
    """The logs a job has."""
    return ["out", "err"] if job.get("split") else ["log"]


def writer(fd: int, *, raw: bool = False) -> Callable[[bytes], None]:
    """Writes log bytes: as they are into a pipe or a file, made safe on a terminal. An empty call ends it."""
    if raw or not render.is_terminal(fd):
        return lambda data: render.write(data, fd=fd)
    screen = Screen()
    return lambda data: render.write(screen.feed(data, last=not data), fd=fd)


def follow(client: Client, job: dict[str, Any], sinks: dict[str, Callable[[bytes], None]], **options: Any) -> int:
    """Write logs until the job is final; 0 when it succeeded, 1 when not. Ctrl-C detaches."""
    final = follow_to_end(client, job, sinks, **options)
    return EXIT_OK if final.get("state") == "succeeded" else EXIT_JOB_FAILED


def follow_to_end(
    client: Client, job: dict[str, Any], sinks: dict[str, Callable[[bytes], None]], **options: Any
) -> dict[str, Any]:
    """Write logs until the job is final, and return the job."""
    try:
        if len(sinks) == 1:
            [(stream, put)] = sinks.items()
            return _follow_stream(client, job["id"], stream, put, **options)
        return _follow_streams(client, job, sinks, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"detached; job {job['id']} runs on; grass follow {job['id']}") from None


def _follow_streams(
    client: Client, job: dict[str, Any], sinks: dict[str, Callable[[bytes], None]], **options: Any
) -> dict[str, Any]:
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
    from concurrent.futures import wait as wait_for

    pool = ThreadPoolExecutor(len(sinks))
    followers = [
        # A client each: one may be answering while the other reconnects.
        pool.submit(_follow_stream, Client(client.home), job["id"], stream, put, **options)
        for stream, put in sinks.items()
    ]
    try:
        wait_for(followers, return_when=FIRST_EXCEPTION)
        return [follower.result() for follower in followers][-1]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _follow_stream(
    client: Client,
    id_: int,
    stream: str,
    put: Callable[[bytes], None],
    *,
    tail: int | None = None,
    attempt: int | None = None,
) -> dict[str, Any]:
    offset, fixed, delay_s = 0, attempt is not None, RECONNECT_DELAY_S
    while True:
        part_of = client.log(id_, stream=stream, offset=offset, attempt=attempt, follow=True, tail=tail)
        if part_of.attempt is not None and part_of.attempt > 0:
            attempt = part_of.attempt
        if tail is not None:
            if part_of.offset is None:
                raise Unreachable("this daemon cannot follow from a tail; leave --tail out")
            offset, tail = part_of.offset, None
        before = offset
        try:
            for part in part_of:
                put(part)
                offset += len(part)
        except Broken:
            pass  # as a daemon that dies: the job runs on, and the next one knows it
        job = one_job(client, str(id_))
        tried = int(job.get("attempt") or 0)
        if attempt is None and tried:
            attempt = 1  # followed from before its first start on
        is_over = job.get("state") in FINAL_STATES or (fixed and tried != attempt)
        is_behind = not fixed and attempt is not None and tried > attempt
        if is_over or is_behind:
            # A stream that a dying daemon cut short ends like any other: take what is left.
            for part in client.log(id_, stream=stream, offset=offset, attempt=attempt):
                put(part)
        if is_behind and attempt is not None:
            attempt, offset = attempt + 1, 0
            continue
        if is_over:
            put(b"")
            return job
        delay_s = RECONNECT_DELAY_S if offset > before else min(2 * delay_s, RECONNECT_DELAY_LIMIT_S)
        sleep(delay_s)
