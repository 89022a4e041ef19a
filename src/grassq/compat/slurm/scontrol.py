"""scontrol: the few words of it that scripts use: show hostnames, show job, hold, release."""

from __future__ import annotations

import re
import shlex
from time import time

from grassq.cli.render import clean, text
from grassq.compat.slurm import job_view, slurm_jobs
from grassq.compat.slurm.job_view import local_time, long_span
from grassq.compat.slurm.sbatch import answered, user_name
from grassq.compat.slurm.slurm_jobs import Job, array_place
from grassq.compat.slurm.submission.arrays import read_indices
from grassq.compat.slurm.submission.options import Reader, described
from grassq.core.names import shown
from grassq.errors import BadInput, NotFound, Refused
from grassq.home import environment_text
from grassq.net.client import ApiClient, compact

PROGRAM = "scontrol"
OPTIONS = described(
    "oneliner/o",
    "quiet/Q details/d",
)
_USAGE = "Usage: scontrol show hostnames [LIST] | show job [ID] | hold ID... | release ID...\n"


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, _USAGE, reader):
        return 0
    match [word.lower() for word in words[:2]]:
        case ["show", "hostnames" | "hostname"]:
            return _hostnames(words[2] if len(words) > 2 else environment_text().get("SLURM_JOB_NODELIST", ""))
        case ["show", "job" | "jobs"] if len(words) <= 3:
            found = _jobs(client, words[2:]) if len(words) == 3 else slurm_jobs.listed(client, ())[0]
            return text("".join(_shown(job, is_one_line="oneliner" in typed) for job in found))
        case ["hold" | "release" as verb, _]:
            client.change(f"jobs/{verb}", selectors=compact(int(job["id"]) for job in _jobs(client, words[1:])))
            return 0
        case ["requeue", _]:
            raise Refused("a job here is not put back while it runs; `grass rerun` submits a job again that has ended")
    raise BadInput(f"{shown(' '.join(words[:2]))} is not possible here; " + _USAGE.strip())


def _jobs(client: ApiClient, words: list[str]) -> list[Job]:
    found: list[Job] = []
    for id_, jobs in slurm_jobs.by_ids(client, [part for word in words for part in word.split(",") if part]):
        if not jobs:
            raise NotFound(f"Invalid job id specified: {id_}")
        found += jobs
    return found


def _hostnames(names: str) -> int:
    """Print a list of hosts such as a[1-3],b, a host a line."""
    hosts: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", names):
        prefix, bracket, numbers = part.partition("[")
        if not bracket:
            hosts.append(part)
            continue
        width = len(re.split("[-,]", numbers)[0])
        hosts += [f"{prefix}{index:0{width}}" for index in read_indices(numbers.rstrip("]"), "hostlist")]
    return text("".join(f"{clean(host)}\n" for host in hosts))


def _shown(job: Job, *, is_one_line: bool) -> str:
    place = array_place(job)
    array = "" if place is None else f" ArrayJobId={place.first} ArrayTaskId={place.task}"
    devices = job_view.gres(job)
    lines = [
        f"JobId={job['id']}{array} JobName={job.get('name') or job['command'][0]}",
        f"UserId={user_name()} Priority={job_view.priority(job)} Account={job.get('project') or '(null)'}",
        f"JobState={job_view.state_of(job)} Reason={job_view.reason_of(job)}",
        f"Restarts={max(0, int(job.get('attempt') or 0) - 1)} ExitCode={':'.join(map(str, job_view.codes(job)))}",
        f"RunTime={long_span(job_view.elapsed_s(job, time()))} TimeLimit={long_span(job_view.limit_s(job))}",
        f"SubmitTime={local_time(job.get('created'))} StartTime={local_time(job.get('started'))} "
        f"EndTime={local_time(job.get('finished'))}",
        f"Partition={job['queue']} NodeList={job.get('worker') or '(null)'} NumNodes=1 NumCPUs={job_view.cpus(job)}",
        *([f"TresPerNode=gres:{devices}"] if devices else []),
        f"Command={shlex.join(job['command'][3:]) or '(null)'}",
        f"WorkDir={job.get('cwd') or ''}",
    ]
    return (" ".join(lines) if is_one_line else "\n   ".join(lines) + "\n") + "\n"
