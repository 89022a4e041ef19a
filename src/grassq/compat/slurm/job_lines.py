"""The lines of `scontrol show job`: NAME=value, as scripts search them."""

from __future__ import annotations

import grp
import os
import shlex
from pathlib import Path

from grassq.compat.slurm import job_view
from grassq.compat.slurm.job_view import Standing, local_time, long_span, seconds_of
from grassq.compat.slurm.sbatch import user_name
from grassq.compat.slurm.slurm_jobs import Job, array_place
from grassq.compat.slurm.submission.starter import NO_TASK, Files, filled, told_files

_NULL = "(null)"
_NOTHING = Files(None)


def shown_job(job: Job, known: Standing, now: float, *, is_one_line: bool) -> str:
    """Return the lines of a job, or its one line."""
    lines = _lines(job, known, now)
    return (" ".join(lines) if is_one_line else "\n   ".join(lines) + "\n") + "\n"


def _lines(job: Job, known: Standing, now: float) -> list[str]:
    place, limit, devices = array_place(job), job_view.limit_s(job), job_view.gres(job)
    array = "" if place is None else f" ArrayJobId={place.first} ArrayTaskId={place.task}"
    files = told_files(job["command"]) or _NOTHING
    is_pending = job_view.state_of(job) == "PENDING"
    start = job.get("not_before") if is_pending else job.get("started")
    begun = seconds_of(start)
    ends = job.get("finished") or (None if begun is None or limit is None else begun + limit)
    # A command that sbatch or srun made has its own words behind those of the starter.
    command = shlex.join(job["command"][3:] if job["command"][:2] == ["/bin/sh", "-c"] else job["command"])
    output = _file(files.output, job, job.get("output") or "/dev/null")
    nodes = "" if is_pending else str(job.get("worker") or "")
    return [
        f"JobId={job['id']}{array} JobName={job.get('name') or job['command'][0]}",
        f"UserId={user_name()}({os.getuid()}) GroupId={_group_name()}({os.getgid()}) MCS_label=N/A",
        f"Priority={job_view.priority(job)} Nice=0 Account={job.get('project') or _NULL} QOS={_NULL}",
        f"JobState={job_view.state_of(job)} Reason={job_view.reason_of(job, known)} "
        f"Dependency={job_view.dependency_of(job)}",
        f"Requeue=1 Restarts={max(0, int(job.get('attempt') or 0) - 1)} BatchFlag={int(not job.get('split'))} Reboot=0 "
        f"ExitCode={':'.join(map(str, job_view.codes(job)))}",
        f"RunTime={long_span(job_view.elapsed_s(job, now))} TimeLimit={long_span(limit)} TimeMin=N/A",
        f"SubmitTime={local_time(job.get('created'))} "
        f"EligibleTime={local_time(job.get('not_before') or job.get('created'))}",
        f"StartTime={local_time(start, 'Unknown')} EndTime={local_time(ends, 'Unknown')} Deadline=N/A",
        f"Partition={job['queue']}",
        f"NodeList={nodes}",
        *([f"BatchHost={nodes}"] if nodes else []),
        f"NumNodes=1 NumCPUs={job_view.cpus(job)} NumTasks=1 CPUs/Task={job_view.cpus(job)}",
        *([f"TresPerNode=gres:{devices}"] if devices else []),
        f"Command={_NULL if command in ('', 'wrap') else command}",
        f"WorkDir={job.get('cwd') or ''}",
        f"StdErr={_file(files.error, job, output)}",
        f"StdIn={_file(files.input, job, '/dev/null')}",
        f"StdOut={output}",
    ]


def _group_name() -> str:
    try:
        return grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        return str(os.getgid())


def _file(pattern: str | None, job: Job, otherwise: str) -> str:
    """Return the path of a file of a job."""
    if pattern is None:
        return otherwise
    place = array_place(job)
    first, task = (job["id"], NO_TASK.decode()) if place is None else place
    known = {"%": "%", "n": "0", "t": "0", "s": "batch", "u": user_name(), "x": str(job.get("name") or "")}
    known |= {"J": str(job["id"]), "j": str(job["id"]), "A": str(first), "a": str(task), "b": str(int(task) % 10)}
    known["N"] = str(job.get("worker") or "").partition(".")[0]
    return str(Path(job.get("cwd") or "/", filled(pattern, known)))
