"""log and follow: the output of a job."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

from grassq.cli import render
from grassq.cli.ansi_filter import AnsiFilter
from grassq.cli.connect import connect
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, GrassError
from grassq.net.client import ApiClient
from grassq.net.encoding import FINAL_STATES

ASK_AGAIN_S = 0.5
#: The message about a selector that names several jobs counts up to this many.
JOBS_COUNTED = 100


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument("job", metavar="JOB", help="one job")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--out", action="store_const", dest="stream", const="out", help="stdout of a --split job")
    which.add_argument("--err", action="store_const", dest="stream", const="err", help="stderr of a --split job")
    parser.add_argument("--tail", metavar="N", type=int, help="only the last N lines")
    parser.add_argument("--attempt", metavar="N", type=int, help="the log of this attempt (default: the last)")
    parser.add_argument("--raw", action="store_true", help="keep every escape sequence, also on a terminal")
    if name == "log":
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.set_defaults(run=log, **({"follow": True} if name == "follow" else {}))


def log(arguments: argparse.Namespace) -> int:
    """Write the log of a job to stdout."""
    if arguments.tail is not None and arguments.tail < 0:
        raise BadInput("--tail takes a count of lines, 0 or more")
    with connect(arguments.broker) as client:
        job = one_job(client, arguments.job)
        options = {"tail": arguments.tail, "attempt": arguments.attempt}
        own = ["out", "err"] if job.get("split") else ["log"]
        streams = [arguments.stream] if arguments.stream else own
        put = writer(1, raw=arguments.raw)
        if not arguments.follow:
            with _named(job):
                for stream in streams:
                    for part in client.log(job["id"], stream=stream, **options):
                        put(part)
                put(b"")
            return EXIT_OK
        final = follow_to_end(client, job, {stream: put for stream in streams}, **options)
    return EXIT_OK if final.get("state") == "succeeded" else EXIT_JOB_FAILED


def one_job(client: ApiClient, selector: str) -> dict[str, Any]:
    """Return the job that a selector names; raise BadInput unless it is exactly one."""
    answer = client.jobs([selector], limit=JOBS_COUNTED)
    jobs: list[dict[str, Any]] = answer["jobs"]
    if len(jobs) != 1:
        count = f"more than {len(jobs)}" if answer.get("more") else str(len(jobs))
        raise BadInput(f"'{selector}' names {count} jobs; name one")
    return jobs[0]


def writer(fd: int, *, raw: bool = False) -> Callable[[bytes], None]:
    """Return a function that writes log bytes: filtered for a terminal, else unchanged. Empty bytes end the log."""
    if raw or not os.isatty(fd):
        return lambda data: render.write(data, fd=fd)
    screen = AnsiFilter()
    return lambda data: render.write(screen.feed(data, last=not data), fd=fd)


def follow_to_end(
    client: ApiClient, job: dict[str, Any], sinks: dict[str, Callable[[bytes], None]], **options: Any
) -> dict[str, Any]:
    """Write logs until the job has ended, and return the job. Ctrl-C detaches."""
    try:
        with _named(job):
            if len(sinks) == 1:
                [(stream, put)] = sinks.items()
                return _follow_stream(client, job["id"], stream, put, **options)
            return _follow_streams(client, job, sinks, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"detached; job {job['id']} runs on; grass follow {job['id']}") from None


@contextmanager
def _named(job: dict[str, Any]) -> Iterator[None]:
    """Turn an OSError of the output into a GrassError that names the job."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GrassError(f"the log of job {job['id']} is incomplete: {render.reason(error)}") from error


def _follow_streams(
    client: ApiClient, job: dict[str, Any], sinks: dict[str, Callable[[bytes], None]], **options: Any
) -> dict[str, Any]:
    import threading
    from queue import Queue

    heard: Queue[tuple[str, bytes | dict[str, Any] | BaseException]] = Queue(maxsize=len(sinks))

    def listen(stream: str) -> None:
        try:
            final = _follow_stream(client, job["id"], stream, lambda part: heard.put((stream, part)), **options)
            heard.put((stream, final))
        except BaseException as error:  # raised again on the main thread
            heard.put((stream, error))

    for stream in sinks:
        # Daemon threads: Ctrl-C ends the process while they still read.
        threading.Thread(target=listen, args=(stream,), daemon=True).start()
    left, final = len(sinks), job
    while left:
        stream, what = heard.get()
        if isinstance(what, BaseException):
            raise what
        if isinstance(what, bytes):
            sinks[stream](what)
        else:
            left, final = left - 1, what
    return final


def _follow_stream(
    client: ApiClient,
    id_: int,
    stream: str,
    put: Callable[[bytes], None],
    *,
    tail: int | None = None,
    attempt: int | None = None,
) -> dict[str, Any]:
    part_of = client.log(id_, stream=stream, attempt=attempt, follow=True, tail=tail)
    while True:
        for part in part_of:
            put(part)
        job = one_job(client, str(id_))
        if attempt is None and int(job.get("attempt") or 0) > part_of.attempt:
            part_of = client.log(id_, stream=stream, attempt=part_of.attempt + 1, follow=True)
            continue
        if attempt is not None or job.get("state") in FINAL_STATES:
            put(b"")
            return job
        sleep(ASK_AGAIN_S)  # the daemon ended the log before the job ended: ask for the rest
        part_of = client.log(id_, stream=stream, offset=part_of.offset, attempt=part_of.attempt, follow=True)
