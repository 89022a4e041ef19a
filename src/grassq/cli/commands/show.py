"""show: jobs, queues, workers and totals as tables.

The command typed most often: it loads as little as it can, no parser, no `json` and no `datetime`.
"""

from __future__ import annotations

from grassq.cli import job_text as shape
from grassq.cli import render
from grassq.cli.fast import find_target
from grassq.cli.output import warn_of_version
from grassq.errors import Unreachable
from grassq.net.encoding import FINAL_STATES, parse, query
from grassq.net.retry import fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: Below this many columns a job's state and result share one, and what is evident is left out.
WIDE_COLUMNS = 120
#: How many rows of a long table are drawn at a time; the first ones decide how wide the columns are.
ROWS_AT_ONCE = 200
UNREACHABLE = "unreachable"


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `show`."""
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs (default: the current ones)")
    parser.set_defaults(run=lambda typed: show(typed.selectors, as_json=typed.json, broker=typed.broker))
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")


def show(selectors: Sequence[str], *, as_json: bool = False, broker: str | None = None) -> int:
    """Print jobs, and without a selector the queues and totals."""
    answer, parts = _ask(selectors, broker)
    if parts is not None:
        return _print_stream(parts, as_json)
    if as_json:
        return render.document(answer)
    jobs = answer.get("jobs", [])
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


def _ask(selectors: Sequence[str], typed: str | None) -> tuple[dict[str, Any], Iterator[bytes] | None]:
    """Return the answer; of many jobs, the parts in which it comes."""
    target, broker = find_target(typed)
    response, parts = fetch(target, "/v1/show" + query([("selector", each) for each in selectors]))
    if broker is None:
        warn_of_version(response.headers.get("grass-version"))
    if parts is not None:
        return {}, parts
    if response.status == 200:
        try:
            answer = parse(response.body)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer, None
    # Something is wrong: who reads all other answers says what.
    from grassq.net.client import read_answer

    return read_answer(response, broker), None


def _print_stream(parts: Iterator[bytes], as_json: bool) -> int:
    """Print a long answer as it comes: as it is, or its jobs as rows of a table."""
    if as_json:
        for part in parts:
            render.write(part)
        return 0
    lines = _lines(parts)
    table = _JobsTable(_document(next(lines) + b"]}"), is_whole=False)
    jobs = []
    for line in lines:
        if line == b"]}":
            break
        jobs.append(_document(line.removesuffix(b",")))
        if len(jobs) >= ROWS_AT_ONCE:
            table.add(jobs)
            jobs = []
    table.add(jobs)
    return 0


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
        raise Unreachable("the daemon's answer cannot be read; is it another version? try `grass restart`")
    return document


def _names_one(selectors: Sequence[str]) -> bool:
    # A queue or a state that happens to have one job is a list all the same.
    return len(selectors) == 1 and (selectors[0].isdigit() or selectors[0].startswith("@"))


def _one(job: Mapping[str, Any]) -> int:
    now = shape.now()
    words = {"request": shape.amounts(job.get("request")), "allocation": shape.holds(job.get("allocation"))}
    values = {
        "job": job.get("id"),
        "name": job.get("name"),
        "queue": job.get("queue"),
        "state": _plain_state(job),
        "reason": job.get("reason"),
        "result": shape.result(job),
        "error": job.get("error"),
        "command": shape.command(job),
        "cwd": job.get("cwd"),
        "request": words["request"],
        "holds": words["allocation"],
        "worker": job.get("worker"),
        "pid": job.get("pid"),
        "attempt": job.get("attempt"),
        "priority": job.get("priority"),
        "created": shape.clock(job.get("created"), now),
        "started": shape.clock(job.get("started"), now),
        "finished": shape.clock(job.get("finished"), now),
        "took": shape.took(job, now),
        "rerun of": job.get("rerun_of"),
    }
    for label, value in values.items():
        if value not in (None, ""):
            render.line(f"{label:<9} {value}")
    if job.get("cancel_requested") and job.get("state") in ("placed", "running"):
        render.line(f"{'note':<9} stopping")
    return 0


def _with_slots(queues: Sequence[Mapping[str, Any]]) -> set[Any]:
    """The queues in which a job takes a slot, wherever it runs."""
    return {queue.get("name") for queue in queues} - {queue.get("name") for queue in queues if not queue.get("slots")}


class _JobsTable:
    """The table of jobs. A whole answer decides which columns are left out; of a stream nobody knows what follows."""

    def __init__(self, answer: Mapping[str, Any], *, is_whole: bool) -> None:
        self._with_slots = _with_slots(answer.get("queues", []))
        self._is_whole = is_whole
        self._left_out = set() if len(answer.get("workers", [])) > 1 else {"WORKER"}
        self._is_narrow = render.is_terminal() and render.width() < WIDE_COLUMNS
        self._table: render.Table | None = None

    def add(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Print jobs."""
        columns = self._columns(jobs)
        if self._is_narrow:
            _narrow(columns, jobs)
        if self._is_whole:
            self._left_out = _that_say_nothing(columns, self._is_narrow)
        for name in self._left_out:
            del columns[name]
        if self._table is None:
            self._table = render.Table(list(columns), flexible="COMMAND")
        self._table.add(zip(*columns.values(), strict=True))

    def _columns(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
        now = shape.now()
        return {
            "ID": [str(job.get("id")) for job in jobs],
            "NAME": [str(job.get("name") or "") for job in jobs],
            "QUEUE": [str(job.get("queue") or "") for job in jobs],
            "STATE": [_state(job) for job in jobs],
            "COMMAND": [shape.command(job) for job in jobs],
            "HOLDS": [_needs(job, self._with_slots) for job in jobs],
            "WORKER": [str(job.get("worker") or "") for job in jobs],
            "PID": [str(job.get("pid") or "") for job in jobs],
            "CREATED": [shape.clock(job.get("created"), now) for job in jobs],
            "STARTED": [shape.clock(job.get("started"), now) for job in jobs],
            "TOOK": [shape.took(job, now) for job in jobs],
            "RESULT": [shape.result(job) for job in jobs],
        }


def _narrow(columns: dict[str, list[str]], jobs: Sequence[Mapping[str, Any]]) -> None:
    results = columns.pop("RESULT")
    del columns["CREATED"], columns["STARTED"]
    columns["STATE"] = [
        f"{state} {result}" if result not in ("", "ok") else state
        for state, result in zip(columns["STATE"], results, strict=True)
    ]
    columns["PID"] = [
        pid if job.get("state") == "running" else "" for pid, job in zip(columns["PID"], jobs, strict=True)
    ]


def _that_say_nothing(columns: Mapping[str, Sequence[str]], is_narrow: bool) -> set[str]:
    """Return the columns that need not be shown."""
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
    # The point of the reason; what to do about it is for `why`.
    point = reason.partition(";")[0].partition(":")[0]
    return f"{state} ({point})" if point and point != state and state not in FINAL_STATES else state


def _plain_state(job: Mapping[str, Any]) -> str:
    # It runs on as far as anybody knows, but its worker is silent.
    return UNREACHABLE if job.get("unreachable") else str(job.get("state"))


def _needs(job: Mapping[str, Any], with_slots: set[Any]) -> str:
    if job.get("allocation"):
        return shape.holds(job["allocation"])
    # Final jobs hold nothing; of the others it matters what they wait for.
    if job.get("state") in FINAL_STATES:
        return ""
    return "needs a slot" if job.get("queue") in with_slots else f"needs {shape.amounts(job.get('request'))}"


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
        _workers_table(workers)
    if waited_for := answer.get("restored"):
        render.notes(
            [
                f"the broker was restored from a backup; nothing starts until {', '.join(waited_for)} have told what "
                "they ran since, or `grass resume --restored`"
            ]
        )
    totals = [f"{count} {state}" for state, count in (answer.get("totals") or {}).items() if count]
    if totals:
        render.text("\n")
        render.line(", ".join(totals))


def _queue_row(queue: Mapping[str, Any], with_worker: bool) -> list[str]:
    name = f"{queue.get('name')} (paused)" if queue.get("paused") else str(queue.get("name"))
    prefix = shape.command({"command": queue.get("prefix") or []})
    counts = [str(queue.get("running", "")), str(queue.get("queued", ""))]
    where = [str(queue.get("worker") or "(none yet)")] if with_worker else []
    limits, free = shape.holds(queue.get("limits")), shape.holds(queue.get("free"))
    if slots := queue.get("slots"):
        limits, free = shape.slots(slots), shape.slots([slot for slot in slots if slot.get("job") is None])
    return [name, *where, limits, free, *counts, prefix]


def _workers_table(workers: Sequence[Mapping[str, Any]]) -> None:
    now = shape.now()
    columns = {
        "WORKER": [str(worker.get("name")) for worker in workers],
        "STATE": [_worker_state(worker, now) for worker in workers],
        "LABELS": [" ".join(map(str, worker.get("labels") or [])) for worker in workers],
        "HAS": [shape.holds(worker.get("capacity")) for worker in workers],
        "FREE": [shape.holds(worker.get("free")) for worker in workers],
    }
    if not any(columns["LABELS"]):
        del columns["LABELS"]
    render.table(list(columns), list(zip(*columns.values(), strict=True)), flexible="HAS")


def _worker_state(worker: Mapping[str, Any], now: float) -> str:
    since = shape.clock(worker.get("since"), now)
    state = "online" if worker.get("online") else f"silent since {since}" if since else "silent"
    return f"{state}, drained" if worker.get("drained") else state
