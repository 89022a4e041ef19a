"""run, and enqueue --sync: enqueue, follow, and end as the job did."""

from __future__ import annotations

from typing import Any

from grassq.cli import job_text as shape
from grassq.cli import render
from grassq.cli.commands.logs import follow_to_end, one_job, writer
from grassq.cli.connect import connect
from grassq.cli.fast import send
from grassq.cli.output import deliver, warn_of_version
from grassq.cli.typed import take_option
from grassq.core import outcome
from grassq.net.client import ApiClient
from grassq.net.http import is_number


def words(name: str, argv: list[str]) -> int:
    """Enqueue the words of `grass run` and follow the job."""
    typed, argv = take_option("--broker", argv)
    response = send(argv, typed, name)
    code = deliver(response.headers, response.body, stdout=_place_of(response.body))
    job = response.headers.get("grass-follow", "")
    if code == 0 and is_number(job):
        return follow(int(job), typed)
    warn_of_version(response.headers.get("grass-version"))
    return code


def follow(job: int, broker: str | None) -> int:
    """Write a job's output as it comes and return its own exit code."""
    with connect(broker) as client:
        return _follow(client, job)


def _place_of(answer: bytes) -> int | None:
    # Stdout is the job's, so the line with its id goes to stderr; a bare id, which is what -q makes of it, nowhere.
    return None if answer.strip().isdigit() else 2


def _follow(client: ApiClient, id_: int) -> int:
    job = one_job(client, str(id_))
    sinks = {"out": writer(1), "err": writer(2)} if job.get("split") else {"log": writer(1)}
    final = follow_to_end(client, job, sinks)
    _explain(final)
    return outcome.exit_code(final.get("outcome"), final.get("exit_code"), final.get("signal"))


def _explain(job: dict[str, Any]) -> None:
    # What the job could not say itself: its own failure it has already written.
    state = job.get("state")
    if state == "cancelled":
        render.error(f"job {job['id']} was cancelled")
    elif state == "failed" and (job.get("error") or not outcome.is_own_end(job.get("outcome"))):
        render.error(f"job {job['id']} failed: {job.get('error') or shape.result(job)}; grass show {job['id']}")
