"""show: jobs, queues, workers and totals as tables.

The most frequent command, so it imports neither argparse nor `json` nor `datetime`.
"""

from __future__ import annotations

import os

from grassq.cli import job_text, render
from grassq.cli.fast import find_target, warn
from grassq.errors import Unreachable
from grassq.net.encoding import FINAL_STATES, parse, query
from grassq.net.retry import fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: On a narrower terminal, state and result share one column and some columns are left out.
WIDE_COLUMNS = 120
#: Rows of a long table per write; the first rows decide the width of the columns.
ROWS_AT_ONCE = 200
UNREACHABLE = "unreachable"

STATES_HELP = """\
states:
  held         kept by `grass hold`, --hold or three lost attempts, until `grass release`
  waiting      cannot start yet: its queue does not exist, or a retry comes later
  queued       starts as soon as its resources are free
  placed       has its resources and is starting
  running      runs
  succeeded    ended with exit code 0
  failed       ended otherwise, or could not be started
  cancelled    ended by `grass kill`
  unreachable  its worker is not heard from; it probably keeps running
"""


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `show`."""
    from argparse import RawDescriptionHelpFormatter

    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = STATES_HELP
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs (default: the current ones)")
    parser.add_argument("-a", "--all", action="store_const", const=["all"], default=[], help="the same as `all`")
    parser.set_defaults(run=_show)
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only ids")


def _show(arguments: argparse.Namespace) -> int:
    selectors = arguments.selectors + arguments.all
    return show(selectors, as_json=arguments.json, quiet=arguments.quiet, broker=arguments.broker)


def show(selectors: Sequence[str], *, as_json: bool = False, quiet: bool = False, broker: str | None = None) -> int:
    """Print jobs; without a selector also queues, workers and totals; if `quiet`, only the ids of jobs."""
    target, address = find_target(broker)
    response, parts, connection = fetch(target, "/v1/show" + query([("selector", each) for each in selectors]))
    if address is None:
        warn(response.headers)
    if parts is not None:
        _print_stream(parts, as_json, quiet)
        connection.close()
        return 0
    if response.status != 200:
        from grassq.net.client import read_answer

        read_answer(response, address)  # raises the error
    answer = _document(response.body)
    if as_json:
        return render.document(answer)
    jobs = answer.get("jobs", [])
    if quiet:
        _print_ids(jobs)
        return 0
    if len(jobs) == 1 and _names_one(selectors):
        return _one(jobs[0])
    if jobs:
        _JobsTable(answer, is_whole=True).add(jobs)
    else:
        render.text("no jobs\n")
    if not selectors:
        _rest(answer)
    if answer.get("more"):
        render.notes(["there are more jobs; `grass show all` prints them"])
    return 0


def _print_ids(jobs: Sequence[Mapping[str, Any]]) -> None:
    for job in jobs:
        render.line(str(job.get("id")))


def _print_stream(parts: Iterator[bytes], as_json: bool, quiet: bool) -> None:
    """Print a long answer part by part: unchanged, or its jobs as ids or as rows of a table."""
    if as_json:
        for part in parts:
            render.write(part)
        return
    lines = _lines(parts)
    head = _document(next(lines) + b"]}")
    put = _print_ids if quiet else _JobsTable(head, is_whole=False).add
    jobs = []
    for line in lines:
        if line != b"]}":
            jobs.append(_document(line.removesuffix(b",")))
        if line == b"]}" or len(jobs) >= ROWS_AT_ONCE:
            put(jobs)
            jobs = []


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    left = b""
    for part in parts:
        *whole, left = (left + part).split(b"\n")
        yield from whole


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = parse(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Unreachable("the daemon's answer cannot be read; if its version differs, try `grass restart`")
    return document


def _names_one(selectors: Sequence[str]) -> bool:
    # A queue or a state with one job is still printed as a list.
    return len(selectors) == 1 and (selectors[0].isdigit() or selectors[0].startswith("@"))


def _one(job: Mapping[str, Any]) -> int:
    now = job_text.now()
    values = {
        "job": job.get("id"),
        "name": job.get("name"),
        "queue": job.get("queue"),
        "state": _plain_state(job),
        "reason": job.get("reason"),
        "result": job_text.result(job),
        "error": job.get("error"),
        "command": job_text.command(job),
        "cwd": job.get("cwd"),
        **job_text.files(job),
        "request": job_text.amounts(job.get("request")),
        "holds": job_text.holds(job.get("allocation")),
        "worker": job.get("worker"),
        "pid": job.get("pid"),
        "attempt": job.get("attempt"),
        "priority": job.get("priority"),
        "created": job_text.clock(job.get("created"), now),
        "started": job_text.clock(job.get("started"), now),
        "finished": job_text.clock(job.get("finished"), now),
        "took": job_text.took(job, now),
        "rerun of": job.get("rerun_of"),
    }
    for label, value in values.items():
        if value not in (None, ""):
            render.line(f"{label:<9} {value}")
    if job.get("cancel_requested") and job.get("state") in ("placed", "running"):
        render.line(f"{'note':<9} stopping")
    return 0


def _with_slots(queues: Sequence[Mapping[str, Any]]) -> set[Any]:
    """Return the names of queues that have slots on every worker."""
    return {queue.get("name") for queue in queues} - {queue.get("name") for queue in queues if not queue.get("slots")}


class _JobsTable:
    """The table of jobs. Empty columns are left out if the answer is whole; a stream may still fill them."""

    def __init__(self, answer: Mapping[str, Any], *, is_whole: bool) -> None:
        self._with_slots = _with_slots(answer.get("queues", []))
        self._is_whole = is_whole
        self._left_out = set() if len(answer.get("workers", [])) > 1 else {"WORKER"}
        self._is_narrow = os.isatty(1) and render.width() < WIDE_COLUMNS
        self._table: render.Table | None = None

    def add(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Print jobs."""
        columns = self._columns(jobs)
        if self._is_narrow:
            _narrow(columns, jobs)
        if self._is_whole:
            self._left_out = _needless_columns(columns, self._is_narrow)
        for name in self._left_out:
            del columns[name]
        if self._table is None:
            self._table = render.Table(list(columns), flexible="COMMAND")
        self._table.add(zip(*columns.values(), strict=True))

    def _columns(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
        now = job_text.now()
        return {
            "ID": [str(job.get("id")) for job in jobs],
            "NAME": [str(job.get("name") or "") for job in jobs],
            "QUEUE": [str(job.get("queue") or "") for job in jobs],
            "STATE": [_state(job) for job in jobs],
            "COMMAND": [job_text.command(job) for job in jobs],
            "HOLDS": [_needs(job, self._with_slots) for job in jobs],
            "WORKER": [str(job.get("worker") or "") for job in jobs],
            "PID": [str(job.get("pid") or "") for job in jobs],
            "CREATED": [job_text.clock(job.get("created"), now) for job in jobs],
            "STARTED": [job_text.clock(job.get("started"), now) for job in jobs],
            "TOOK": [job_text.took(job, now) for job in jobs],
            "RESULT": [job_text.result(job) for job in jobs],
        }


def _narrow(columns: dict[str, list[str]], jobs: Sequence[Mapping[str, Any]]) -> None:
    results = columns.pop("RESULT")
    del columns["CREATED"], columns["STARTED"]
    columns["STATE"] = [
        f"{state} {result}" if result not in ("", "ok", state) else state
        for state, result in zip(columns["STATE"], results, strict=True)
    ]
    columns["PID"] = [
        pid if job.get("state") == "running" else "" for pid, job in zip(columns["PID"], jobs, strict=True)
    ]


def _needless_columns(columns: Mapping[str, Sequence[str]], is_narrow: bool) -> set[str]:
    """Return the columns that can be left out."""
    found = {name for name in ("NAME", *(("PID", "HOLDS", "TOOK") if is_narrow else ())) if not any(columns[name])}
    if len(set(filter(None, columns["WORKER"]))) < 2:
        found.add("WORKER")
    if is_narrow and set(columns["QUEUE"]) <= {"", "default"}:
        found.add("QUEUE")
    return found


def _state(job: Mapping[str, Any]) -> str:
    state, reason = _plain_state(job), str(job.get("reason") or "")
    if state == UNREACHABLE:
        return state
    if job.get("cancel_requested") and state in ("placed", "running"):
        return f"{state} (ending)"
    # Only the first part of the reason; `grass why` prints all of it.
    point = reason.partition(";")[0].partition(":")[0]
    return f"{state} ({point})" if point and point != state and state not in FINAL_STATES else state


def _plain_state(job: Mapping[str, Any]) -> str:
    # The worker is silent; the job probably runs on.
    return UNREACHABLE if job.get("unreachable") else str(job.get("state"))


def _needs(job: Mapping[str, Any], with_slots: set[Any]) -> str:
    if job.get("allocation"):
        return job_text.holds(job["allocation"])
    # A job that has ended holds nothing; an unfinished job waits for its request.
    if job.get("state") in FINAL_STATES:
        return ""
    return "needs a slot" if job.get("queue") in with_slots else f"needs {job_text.amounts(job.get('request'))}"


def _rest(answer: Mapping[str, Any]) -> None:
    queues, workers = answer.get("queues", []), answer.get("workers", [])
    if queues:
        render.text("\n")
        several = len({queue.get("worker") for queue in queues}) > 1 or any(not queue.get("worker") for queue in queues)
        render.table(
            ["QUEUE", *(["WORKER"] if several else []), "LIMITS", "FREE", "RUNNING", "QUEUED", "COMMAND"],
            [_queue_row(queue, several) for queue in queues],
            flexible="COMMAND",
        )
    if workers:
        render.text("\n")
        _workers_table(workers, answer.get("version"))
    if waited_for := answer.get("restored"):
        render.notes(
            [
                f"the broker was restored from a backup; nothing starts until these workers connect: "
                f"{', '.join(waited_for)}; `grass resume --restored` goes on without them"
            ]
        )
    totals = [f"{count} {state}" for state, count in (answer.get("totals") or {}).items() if count]
    if totals:
        render.text("\n")
        render.line(", ".join(totals))


def _queue_row(queue: Mapping[str, Any], with_worker: bool) -> list[str]:
    name = f"{queue.get('name')} (paused)" if queue.get("paused") else str(queue.get("name"))
    prefix = job_text.command({"command": queue.get("prefix") or []})
    counts = [str(queue.get("running", "")), str(queue.get("queued", ""))]
    where = [str(queue.get("worker") or "(none yet)")] if with_worker else []
    limits, free = job_text.holds(queue.get("limits")), job_text.holds(queue.get("free"))
    if slots := queue.get("slots"):
        limits, free = job_text.slots(slots), job_text.slots([slot for slot in slots if slot.get("job") is None])
    return [name, *where, limits, free, *counts, prefix]


def _workers_table(workers: Sequence[Mapping[str, Any]], version: str | None) -> None:
    """Print the workers, with the versions of those that have another version than the broker."""
    now = job_text.now()
    columns = {
        "WORKER": [str(worker.get("name")) for worker in workers],
        "STATE": [_worker_state(worker, now) for worker in workers],
        "LABELS": [" ".join(map(str, worker.get("labels") or [])) for worker in workers],
        "VERSION": ["" if worker.get("version") in (None, version) else str(worker["version"]) for worker in workers],
        "HAS": [job_text.holds(worker.get("capacity")) for worker in workers],
        "FREE": [job_text.holds(worker.get("free")) for worker in workers],
        "USED BY OTHERS": [job_text.holds(worker.get("used_by_others")) for worker in workers],
    }
    for name in ("LABELS", "VERSION", "USED BY OTHERS"):
        if not any(columns[name]):
            del columns[name]
    render.table(list(columns), list(zip(*columns.values(), strict=True)), flexible="HAS")


def _worker_state(worker: Mapping[str, Any], now: float) -> str:
    since = job_text.clock(worker.get("since"), now)
    state = "online" if worker.get("online") else f"silent since {since}" if since else "silent"
    state = f"{state}, disk full" if worker.get("disk_short") else state
    return f"{state}, drained" if worker.get("drained") else state
