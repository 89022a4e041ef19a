"""what-if: when a job would start, or what another capacity would change; nothing is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from grassq.cli import job_text, render
from grassq.cli.commands.looking.eta import interval
from grassq.cli.connect import connect
from grassq.cli.typed import VALUE_OPTIONS, take_flag, take_option
from grassq.errors import BadInput
from grassq.home import Sender
from grassq.net.encoding import word_value

#: What a comparison takes besides the capacity.
_OPTIONS = {"--on", "--broker", "--json"}
_VALUES = VALUE_OPTIONS | {"--capacity", "--on"}
_USAGE = 'what-if needs the words of a job, or a capacity: grass what-if --capacity "{gpu: 8}"'


def words(name: str, argv: list[str]) -> int:
    """Ask what would be, and print it."""
    capacity, argv = take_option("--capacity", argv, _VALUES)
    # Selectors are no command, so these options may stand anywhere among them.
    are_selectors = capacity is not None and {word.partition("=")[0] for word in argv if word[:1] == "-"} <= _OPTIONS
    names = len(argv) if are_selectors else 0
    worker, argv = take_option("--on", argv, _VALUES, names=names)
    broker, argv = take_option("--broker", argv, _VALUES, names=names)
    as_json, argv = take_flag("--json", argv, names=names)
    if capacity is None and (worker is not None or not argv):
        raise BadInput(_USAGE if worker is None else "--on goes with --capacity")
    if capacity is not None and are_selectors:
        return _with_capacity(argv, capacity, worker, broker, as_json)
    return _with_job(argv, capacity, worker, broker, as_json)


def _with_job(argv: list[str], capacity: str | None, worker: str | None, broker: str | None, as_json: bool) -> int:
    with connect(broker) as client:
        sender = Sender.to(client.broker)
        answer = client.change(
            "what-if",
            words=[word_value(os.fsencode(word)) for word in argv],
            cwd=word_value(sender.cwd),
            env=[[word_value(name), word_value(value)] for name, value in sender.env.items()],
            umask=sender.umask,
            capacity=capacity,
            on=worker,
        )
    render.notes([str(warning) for warning in answer.get("warnings") or []])
    if as_json:
        return render.document(answer)
    for line in _lines(answer.get("job") or {}, job_text.seconds(answer.get("now")) or job_text.now()):
        render.line(line)
    return 0


def _lines(job: Mapping[str, Any], now: float) -> list[str]:
    said = []
    if job.get("starts"):
        where = f" on {job['worker']}" if job.get("worker") else ""
        devices = job_text.holds(job.get("allocation"))
        said.append(f"it would start {interval(job['starts'], now)}{where}" + (f" ({devices})" if devices else ""))
    if job.get("ends"):
        said.append(f"it would end {interval(job['ends'], now)}")
    if job.get("reason"):
        said.append(str(job["reason"]))
    if job.get("basis"):
        said.append(f"from {job['basis']}")
    return said or ["no estimate"]


def _with_capacity(selectors: list[str], capacity: str, worker: str | None, broker: str | None, as_json: bool) -> int:
    with connect(broker) as client:
        answer = client.get("what-if", selectors, capacity=capacity, on=worker)
    if as_json:
        return render.document(answer)
    if answer.get("unfinished") == 0:
        render.line("no selected job runs or waits" if selectors else "no job runs or waits")
        return 0
    now = job_text.seconds(answer.get("now")) or job_text.now()
    what = "selected jobs" if selectors else "all jobs"
    rows = [_row(name, answer.get(key) or {}, now) for name, key in (("now", "before"), (capacity, "after"))]
    render.table(["CAPACITY", f"{what.upper()} END", "MEAN WAIT"], rows, flexible="CAPACITY")
    render.notes([str(note) for note in answer.get("notes") or []])
    if answer.get("more"):
        render.notes([f"only the first {answer.get('selected')} selected jobs are counted"])
    return 0


def _row(name: str, outcome: Mapping[str, Any], now: float) -> list[str]:
    done, wait_s = outcome.get("done"), outcome.get("mean_wait_s")
    wait = "" if wait_s is None else f"about {job_text.span(float(wait_s))}"
    unknown = int(outcome.get("without_estimate") or 0)
    left_out = f"; without an estimate: {unknown}" if done and unknown else ""
    return [name, (interval(done, now) if done else "no estimate") + left_out, wait]
