"""log and follow: the output of jobs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.connect import add_patient, connect
from grassq.cli.logs.live_view import FoldedView, LineView, LiveView
from grassq.cli.logs.selection import LineSelection
from grassq.cli.logs.several import Follower, streams_of
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, GrassError, NotFound
from grassq.net.cannot_start import CannotStart, until_started, watched
from grassq.net.client import ApiClient
from grassq.net.encoding import FINAL_STATES

#: The most bytes of output in a JSON document.
JSON_MAX = 64 << 20
#: Jobs whose logs one command prints or follows.
JOBS_MAX = 500


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="jobs: ids, ranges, names, `@` for the last, ...")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--out", action="store_const", dest="stream", const="out", help="stdout of a --split job")
    which.add_argument("--err", action="store_const", dest="stream", const="err", help="stderr of a --split job")
    parser.add_argument("--tail", "-n", metavar="N", type=int, help="only the last N lines")
    parser.add_argument("--attempt", metavar="N", type=int, help="the log of this attempt (default: the last)")
    parser.add_argument("--raw", action="store_true", help="print the bytes as they were written, also on a terminal")
    if name == "log":
        parser.add_argument("--head", metavar="N", type=int, help="only the first N lines")
        parser.add_argument("--lines", metavar="A-B", help="only these lines: 5-10, 5-, or 5")
        since = f"only lines written since a time: {job_text.SINCE_HELP}"
        parser.add_argument("--since", metavar="TIME", help=since)
        matching = "only lines that match a regular expression; exit code 1 if no line matches"
        parser.add_argument("--grep", metavar="RE", help=matching)
        parser.add_argument("-i", "--ignore-case", action="store_true", help="with --grep: upper and lower case match")
        parser.add_argument("--numbers", action="store_true", help="print the numbers of the lines")
        parser.add_argument("--path", action="store_true", help="print where the log is, instead of the log")
        parser.add_argument("--no-pager", action="store_true", help="never start $PAGER")
        parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
        parser.add_argument("--json", action="store_true", help="print attempt and output as a JSON document")
    strict = "end with exit code 5 if the job cannot start" + (" (with -f)" if name == "log" else "")
    parser.add_argument("--strict", action="store_true", help=strict)
    add_patient(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print no remarks, only the output and errors")
    parser.set_defaults(run=log, **({"follow": True} if name == "follow" else {}))


def log(arguments: argparse.Namespace) -> int:
    """Write the logs of jobs to stdout."""
    if arguments.tail is not None and arguments.tail < 0:
        raise BadInput("--tail takes a count of lines, 0 or more")
    if arguments.attempt is not None and arguments.attempt < 1:
        raise BadInput("--attempt takes a number from 1 on")
    selection = LineSelection(arguments)
    if arguments.follow and (selection.is_partial or getattr(arguments, "json", False)):
        raise BadInput("-f goes on to the end: of the other options it takes --tail, --raw, --out and --err")
    with connect(arguments.broker, away_s=arguments.patient) as client:
        jobs = _jobs(client, arguments.jobs)
        if getattr(arguments, "path", False):
            return _paths(client, jobs, arguments)
        if arguments.follow:
            return _follow(client, jobs, arguments)
        if selection.wants_lines or len(jobs) > 1:
            return selection.print(client, jobs, arguments)
        [job] = jobs
        streams = [arguments.stream] if arguments.stream else streams_of(job)
        options = {"tail": arguments.tail, "attempt": arguments.attempt}
        if not arguments.json and not arguments.raw and os.isatty(1):
            with selection.paged() as paged:
                view = FoldedView(paged.line, coloured=render.has_colours())
                return _print(client, job, streams, view.feed, **options)
        put = None if arguments.json else lambda data: render.write_unchanged(data)
        return _print(client, job, streams, put, **options)


def _jobs(client: ApiClient, selectors: list[str]) -> list[dict[str, Any]]:
    if len(selectors) == 1 and selectors[0].isdigit():
        return [client.one_job(selectors[0])]
    answer = client.jobs(selectors, limit=JOBS_MAX)
    jobs: list[dict[str, Any]] = sorted(answer["jobs"], key=lambda job: int(job["id"]))
    if answer.get("more"):
        raise BadInput(f"these are more than {JOBS_MAX:,} jobs; name fewer")
    if not jobs:
        raise NotFound(f"no job is {' '.join(selectors)}")
    return jobs


def _paths(client: ApiClient, jobs: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    from grassq.net.log_lines import ask_lines

    for job in jobs:
        for stream in [arguments.stream] if arguments.stream else streams_of(job):
            answer = ask_lines(client, job["id"], count=0, stream=stream, attempt=arguments.attempt)
            if not answer.get("path"):
                where = f"on worker {job['worker']}" if job.get("worker") else "not there: the job has not started"
                raise NotFound(f"the log of job {job['id']} is {where}")
            render.line(str(answer["path"]))
    return EXIT_OK


def _follow(client: ApiClient, jobs: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    if len(jobs) > 1:
        if arguments.attempt is not None:
            raise BadInput("--attempt takes one job")
        if arguments.raw:
            raise BadInput("--raw takes one job")
        return _follow_several(client, jobs, arguments)
    [job] = jobs
    streams = [arguments.stream] if arguments.stream else streams_of(job)
    sinks = {stream: writer(1, raw=arguments.raw, shared=len(streams) > 1) for stream in streams}
    blocked = _cannot_start(arguments)
    final = follow_to_end(client, job, sinks, blocked, tail=arguments.tail, attempt=arguments.attempt)
    return EXIT_OK if final.get("state") == "succeeded" else EXIT_JOB_FAILED


def _cannot_start(arguments: argparse.Namespace) -> CannotStart:
    return CannotStart(None if arguments.quiet else render.notes, strict=arguments.strict)


def _follow_several(client: ApiClient, jobs: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    is_terminal = os.isatty(1)
    follower = Follower(client, _write_line, coloured=is_terminal and render.has_colours())
    try:
        failed = follower.follow(jobs, arguments.stream, arguments.tail, _cannot_start(arguments))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("detached; the jobs are not stopped") from None
    return EXIT_JOB_FAILED if failed else EXIT_OK


def _print(
    client: ApiClient, job: dict[str, Any], streams: list[str], put: Callable[[bytes], None] | None, **options: Any
) -> int:
    """Print the log as it is now, with `put` or as a document; a job that never started has none, which is exit 3."""
    texts, size = dict.fromkeys(streams, b""), 0
    with _written(job, [put] if put else []):
        for stream in streams:
            for part in client.log(job["id"], stream=stream, **options):
                size += len(part)
                if put is not None:
                    put(part)
                    continue
                texts[stream] += part
                if size > JSON_MAX:
                    raise BadInput(f"the log has more than {JSON_MAX >> 20} MiB; use --tail N, or leave out --json")
        if put is None:
            shown = {stream: text.decode("utf-8", "backslashreplace") for stream, text in texts.items()}
            render.document({"id": job["id"], "attempt": options["attempt"] or job.get("attempt"), **shown})
    if size or not never_started(job):
        return EXIT_OK
    state = str(job.get("error") or job.get("state"))
    word = "never started" if job.get("state") in FINAL_STATES else "has not started"
    raise NotFound(f"job {job['id']} {word} ({state}), so it has no log; `grass why {job['id']}` says more")


def never_started(job: Mapping[str, Any]) -> bool:
    """Tell whether no attempt of a job has begun."""
    return not job.get("started") and job.get("state") != "running" and int(job.get("attempt") or 0) <= 1


def writer(fd: int, *, raw: bool = False, shared: bool = False) -> Callable[[bytes], None]:
    """Return a function that writes log bytes: drawn on a terminal, else unchanged. Empty bytes end the log.

    A terminal that two logs share gets whole lines.
    """
    if raw or not os.isatty(fd):
        return lambda data: render.write_unchanged(data, fd=fd)
    coloured = render.has_colours()
    if shared:
        return LineView(lambda text: _write_line(text, fd), coloured=coloured).feed
    size = partial(render.terminal_size, fd)
    return LiveView(lambda data: render.write_unchanged(data, fd=fd), size, coloured=coloured).feed


def _write_line(text: str, fd: int = 1) -> None:
    render.write_unchanged((text + "\n").encode("utf-8", "backslashreplace"), fd=fd)


def follow_to_end(
    client: ApiClient,
    job: dict[str, Any],
    sinks: dict[str, Callable[[bytes], None]],
    blocked: CannotStart,
    **options: Any,
) -> dict[str, Any]:
    """Write logs until the job has ended, and return the job. Ctrl-C detaches."""
    id_ = job["id"]

    def look() -> dict[str, Any]:
        return client.one_job(str(id_))

    try:
        if blocked.is_strict:
            until_started(look, job, blocked)
        with _written(job, sinks.values()), watched(look, job, blocked):
            if len(sinks) == 1:
                [(stream, put)] = sinks.items()
                return _follow_stream(client, job["id"], stream, put, **options)
            return _follow_streams(client, job, sinks, **options)
    except KeyboardInterrupt:
        ways = f"`grass follow {id_}` shows its output again, `grass kill {id_}` ends it"
        raise KeyboardInterrupt(f"detached; job {id_} is not stopped: {ways}") from None


@contextmanager
def _written(job: dict[str, Any], sinks: Iterable[Callable[[bytes], None]]) -> Iterator[None]:
    """End the sinks, also after an error, so that no line stays open; turn an OSError into one that names the job."""
    try:
        is_interrupted = False
        try:
            yield
        except KeyboardInterrupt:
            is_interrupted = True  # the message about it begins a new line
            raise
        finally:
            for put in () if is_interrupted else sinks:
                put(b"")
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
    for part in client.follow(id_, stream=stream, attempt=attempt, tail=tail):
        put(part)
    return client.one_job(str(id_))
