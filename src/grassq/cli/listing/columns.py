"""The columns of a table of jobs: what each shows, how it is sorted, and which are left out first."""

from __future__ import annotations

from grassq.cli import job_text
from grassq.cli.listing import bars
from grassq.errors import BadInput
from grassq.net.encoding import FINAL_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Job = Mapping[str, Any]
    Cell = Callable[["Job", "TableContext"], str]

UNREACHABLE, ENDING = "unreachable", "ending"
#: What a suspended job is shown as instead of running, by the field `suspended`.
SUSPENDED = {"kept": "suspended", "freed": "suspended, freed", "resuming": "resuming"}


class TableContext:
    """What the cells of all jobs depend on: the time, and the queues whose jobs take slots."""

    def __init__(self, now: float, with_slots: set[Any]) -> None:
        self.now = now
        self.with_slots = with_slots


def state(job: Job) -> str:
    """Return the state of a job and, in a few words, why it is in this state."""
    plain, reason = plain_state(job), str(job.get("reason") or "")
    if plain in (UNREACHABLE, ENDING, *SUSPENDED.values()):
        return plain
    # Only the first part of the reason; `grass why` prints all of it.
    point = reason.partition(";")[0].partition(":")[0]
    return f"{plain} ({point})" if point and point != plain and plain not in FINAL_STATES else plain


def plain_state(job: Job) -> str:
    """Return the state of a job in a word: a job whose worker is silent probably runs on, a killed one is ending."""
    if job.get("unreachable"):
        return UNREACHABLE
    plain = str(job.get("state"))
    if job.get("cancel_requested") and plain in ("placed", "running"):
        return ENDING
    return SUSPENDED.get(str(job.get("suspended")), plain) if plain == "running" else plain


def needs(job: Job, with_slots: set[Any]) -> str:
    """Return what a job holds or held, or what it waits for."""
    if job.get("allocation"):
        return job_text.holds(job["allocation"])
    # A job that has ended holds nothing; an unfinished job waits for its request. A row for a sweep has none.
    if job.get("state") in FINAL_STATES or job.get("request") is None:
        return ""
    return "needs a slot" if job.get("queue") in with_slots else f"needs {job_text.amounts(job.get('request'))}"


def directory(job: Job) -> str:
    """Return in which directory a job runs or ran; the submitter's is another one if the job ran elsewhere."""
    if "directory" not in job or not job.get("worker"):
        return str(job.get("cwd") or "")
    if job["directory"] is not None:
        return str(job["directory"])
    kind = "the files it was sent" if (job.get("files") or {}).get("send") else "the default directory"
    return f"{kind}, on {job['worker']}"


def _text(name: str) -> Cell:
    return lambda job, context: "" if job.get(name) is None else str(job[name])


def _time(name: str) -> Cell:
    return lambda job, context: job_text.clock(job.get(name), context.now)


def _ago(name: str) -> Cell:
    return lambda job, context: job_text.ago(job.get(name), context.now)


#: The columns by name, as they are typed after -o; the header is the name in capitals.
COLUMNS: dict[str, Cell] = {
    "id": _text("id"),
    "name": lambda job, context: str(job.get("name") or ""),
    "project": lambda job, context: str(job.get("project") or ""),
    "tags": lambda job, context: job_text.pairs(job.get("tags")),
    "queue": lambda job, context: str(job.get("queue") or ""),
    "state": lambda job, context: state(job),
    "command": lambda job, context: job_text.command(job),
    "holds": lambda job, context: needs(job, context.with_slots),
    "request": lambda job, context: job_text.amounts(job["request"]) if job.get("request") is not None else "",
    "worker": lambda job, context: str(job.get("worker") or ""),
    "pid": lambda job, context: str(job.get("pid") or ""),
    "created": _time("created"),
    "started": _time("started"),
    "finished": _time("finished"),
    "age": _ago("created"),
    "ended": _ago("finished"),
    "took": lambda job, context: job_text.took(job, context.now),
    "result": lambda job, context: job_text.result(job),
    "reason": _text("reason"),
    "priority": _text("priority"),
    "attempt": _text("attempt"),
    "exit_code": _text("exit_code"),
    "signal": _text("signal"),
    "outcome": _text("outcome"),
    "error": _text("error"),
    "cwd": lambda job, context: directory(job),
    "rerun_of": _text("rerun_of"),
    "parameters": lambda job, context: job_text.pairs(job.get("parameters")),
    "progress": lambda job, context: bars.progress_text(job, with_bar=False),
    "cause": _text("cause"),
    "last_line": lambda job, context: bars.last_line(job),
}
#: Other words for columns that people type.
OTHER_NAMES = {
    "cmd": "command",
    "elapsed": "took",
    "time": "took",
    "why": "reason",
    "gpu": "holds",
    "device": "holds",
    "devices": "holds",
    "exit": "exit_code",
    "log": "last_line",
    "last": "last_line",
    "rerun": "rerun_of",
    "params": "parameters",
    "tag": "tags",
}
#: What a table shows unless -o says otherwise; the last two only where jobs have them.
DEFAULT = (
    *("id", "name", "queue", "state", "command", "holds", "worker", "pid", "created", "started", "took", "result"),
    *("cause", "last_line"),
)
#: The columns that need a look at the logs.
LOOKING = frozenset({"progress", "cause", "last_line"})
#: Which columns a narrow terminal leaves out, the first first; the others are only cut.
LEFT_OUT = (
    *("outcome", "signal", "pid", "created", "started", "finished", "attempt", "priority", "rerun_of", "age"),
    *(
        "last_line",
        "worker",
        "project",
        "tags",
        "queue",
        "request",
        "cwd",
        "ended",
        "holds",
        "progress",
        "took",
        "error",
        "reason",
    ),
    *("result", "parameters", "exit_code", "name", "cause"),
)
_NUMBERS = frozenset({"id", "pid", "priority", "attempt", "exit_code", "signal", "rerun_of"})
_TIMES = {"created": "created", "started": "started", "finished": "finished", "age": "created", "ended": "finished"}


def chosen(text: str) -> list[str]:
    """Return the columns that -o names; with `+` in front, the default columns and these."""
    names: list[str] = []
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if not words:
        raise BadInput(f"-o needs columns: {', '.join(COLUMNS)}")
    for word in words:
        if word.startswith("+") and not names:
            names += DEFAULT
        names.append(known(word.removeprefix("+"), "-o"))
    return list(dict.fromkeys(names))


def known(word: str, option: str) -> str:
    """Return the column that a word names; raise BadInput that lists the columns."""
    name = OTHER_NAMES.get(word, word).replace("-", "_")
    if name in COLUMNS:
        return name
    from grassq.core.syntax.options import closest

    near = closest(name, COLUMNS)
    hint = f"did you mean {near}? " if near else ""
    raise BadInput(f"{option}: there is no column '{word[:80]}'; {hint}the columns are {', '.join(COLUMNS)}")


def sort_key(name: str, context: TableContext) -> Callable[[Job], tuple[bool, Any]]:
    """Return by what jobs are sorted in the order of a column; a job without a value comes last."""

    def value(job: Job) -> Any:
        if name in _NUMBERS:
            return job.get(name)
        if name in _TIMES:
            return job_text.seconds(job.get(_TIMES[name]))
        if name == "took":
            return job_text.seconds_run(job, context.now)
        if name == "progress":
            told = job.get("progress")
            return told.get("fraction") if isinstance(told, dict) else None
        return COLUMNS[name](job, context) or None

    def key(job: Job) -> tuple[bool, Any]:
        found = value(job)
        return found is None, "" if found is None else found

    return key
