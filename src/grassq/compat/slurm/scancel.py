"""scancel: ends jobs, or sends them a signal."""

from __future__ import annotations

from grassq.compat.slurm import job_view, slurm_jobs
from grassq.compat.slurm.sbatch import answered, say
from grassq.compat.slurm.signals import send_signal
from grassq.compat.slurm.slurm_jobs import Job
from grassq.compat.slurm.squeue import chosen, read_states
from grassq.compat.slurm.submission.options import Reader, described
from grassq.compat.slurm.submission.values import signal_name
from grassq.errors import BadInput, GrassError, Refused
from grassq.net.client import ApiClient, compact

PROGRAM = "scancel"
OPTIONS = described(
    "account/A= batch/b full/f me name/n= jobname= nodelist/w= partition/p= quiet/Q signal/s= state/t= user/u=",
    "verbose/v hurry/H ctld clusters/M= qos/q= wckey= reservation/R=",
)
_FILTERS = ("account", "name", "jobname", "nodelist", "partition", "state", "user", "me")
_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING"})


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, "Usage: scancel [OPTIONS...] [JOB_ID[_TASK]...]\n", reader):
        return 0
    if not words and not any(name in typed for name in _FILTERS):
        raise BadInput("No job identification provided")
    number = signal_name(typed["signal"], "--signal") if "signal" in typed else None
    states = read_states(typed.get("state"), PROGRAM)
    if states is not None and (wrong := sorted(states - _STATES)):
        raise BadInput(f"Invalid job state {wrong[0]}; only PENDING, RUNNING and SUSPENDED jobs can be cancelled")
    if "jobname" in typed:
        typed["name"] = typed["jobname"]
    wanted = [id_ for word in words for id_ in _ids(word)]
    jobs: list[Job] = []
    for id_, found in slurm_jobs.by_ids(client, wanted):
        jobs += found
        if not found and "quiet" not in typed:
            say(PROGRAM, f"error: Kill job error on job id {id_}: Invalid job id specified")
    filters = {name: value for name, value in typed.items() if name in _FILTERS}
    if filters or not words:
        allowed = {job["id"] for job in chosen(client, filters, states)}
        jobs = [job for job in jobs if job["id"] in allowed] if words else chosen(client, filters, states)
    live = [job for job in jobs if job["state"] in slurm_jobs.LIVE]
    return _cancel(client, live) if number in (None, "KILL") else _signal(live, number or "", typed)


def _ids(word: str) -> list[str]:
    """Return the ids of a word; commas inside of brackets are a part of an id."""
    parts, depth = [""], 0
    for letter in word:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def _cancel(client: ApiClient, jobs: list[Job]) -> int:
    if not jobs:
        return 0
    try:
        client.kill(compact(int(job["id"]) for job in jobs))
    except Refused as error:
        say(PROGRAM, f"error: {error}")
        return error.exit_code
    return 0


def _signal(jobs: list[Job], name: str, typed: dict[str, str]) -> int:
    code = 0
    for job in jobs:
        if job_view.state_of(job) == "PENDING":
            continue
        try:
            send_signal(job, name, to_script="batch" in typed or "full" in typed, to_others="batch" not in typed)
        except GrassError as error:
            say(PROGRAM, f"error: {error}")
            code = error.exit_code
    return code
