"""run, and enqueue --sync: enqueue a job, follow it, and exit with its exit code."""

from __future__ import annotations

from typing import Any

from grassq.cli import job_text, render
from grassq.cli.commands.looking.logs import follow_to_end, writer
from grassq.cli.connect import connect
from grassq.cli.enqueue import enqueue
from grassq.cli.typed import VALUE_OPTIONS, take_flag, take_option
from grassq.core import outcome
from grassq.core.syntax.durations import patience_s
from grassq.net.cannot_start import CannotStart
from grassq.net.retry import AWAY_S


def words(name: str, argv: list[str]) -> int:
    """Enqueue the words of `grass run` and follow the job."""
    # First: only here --patient is an option with a value.
    patient, argv = take_option("--patient", argv, VALUE_OPTIONS | {"--patient"})
    typed, argv = take_option("--broker", argv)
    strict, argv = take_flag("--strict", argv)
    away_s = AWAY_S if patient is None else patience_s(patient)
    return enqueue(argv, typed, name, strict=strict, away_s=away_s)


def follow(id_: int, broker: str | None, *, strict: bool = False, away_s: float = AWAY_S) -> int:
    """Write the output of a job until it ends; return the exit code of the job."""
    with connect(broker, away_s=away_s) as client:
        job = client.one_job(str(id_))
        split = {"out": writer(1, shared=True), "err": writer(2, shared=True)}
        sinks = split if job.get("split") else {"log": writer(1)}
        final = follow_to_end(client, job, sinks, CannotStart(render.notes, strict=strict))
        _explain(final)
    return outcome.exit_code(final.get("outcome"), final.get("exit_code"), final.get("signal"))


def _explain(job: dict[str, Any]) -> None:
    # Only what the job cannot have written itself.
    state = job.get("state")
    if state == "cancelled":
        render.error(f"job {job['id']} was cancelled")
    elif state == "failed" and (job.get("error") or not outcome.is_own_end(job.get("outcome"))):
        render.error(f"job {job['id']} failed: {job.get('error') or job_text.result(job)}; grass show {job['id']}")
    elif state == "succeeded" and job.get("error"):
        render.error(f"job {job['id']}: {job['error']}")
