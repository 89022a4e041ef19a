"""scontrol: what scripts use of it: show job, show hostnames, requeue, update, hold, release, suspend, resume."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from time import time

from grassq.cli.render import clean, text
from grassq.compat.slurm import slurm_jobs
from grassq.compat.slurm.job_lines import shown_job
from grassq.compat.slurm.sbatch import answered, say
from grassq.compat.slurm.slurm_jobs import Job
from grassq.compat.slurm.standing import standing
from grassq.compat.slurm.submission import values
from grassq.compat.slurm.submission.arrays import read_indices
from grassq.compat.slurm.submission.job_document import PRIORITY_MAX, grass_name
from grassq.compat.slurm.submission.options import Reader, Typed, described
from grassq.core.names import shown
from grassq.errors import BadInput, NotFound
from grassq.home import environment_text
from grassq.net.client import ApiClient, compact

PROGRAM = "scontrol"
OPTIONS = described(
    "oneliner/o",
    "quiet/Q details/d",
)
_USAGE = (
    "Usage: scontrol show hostnames [LIST] | show job [ID] | requeue ID... | hold ID... | release ID... | "
    "suspend ID... | resume ID... | update JobId=ID NAME=VALUE...\n"
)


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, _USAGE, reader):
        return 0
    match [word.lower() for word in words[:2]]:
        case ["show", "hostnames" | "hostname"]:
            return _hostnames(words[2] if len(words) > 2 else environment_text().get("SLURM_JOB_NODELIST", ""))
        case ["show", word, *_] if len(words) <= 3 and word.partition("=")[0] in ("job", "jobs", "jobid"):
            return _show(client, words, typed)
        case ["hold" | "release" | "requeue" | "suspend" | "resume" as verb, _]:
            return _change(client, verb, words[1:])
        case ["update", _]:
            return _update(client, words[1:])
        case ["hold" | "release" | "requeue" | "suspend" | "resume" | "update" as verb]:
            raise BadInput(f"too few arguments for keyword:{verb}")
    raise BadInput(f"invalid keyword: {shown(' '.join(words[:2]))}; {_USAGE.strip()}")


def _show(client: ApiClient, words: Sequence[str], typed: Typed) -> int:
    named = [*filter(None, [words[1].partition("=")[2], *words[2:]])]
    found = _jobs(client, named) if named else slurm_jobs.listed(client, ())[0]
    known, now = standing(client, found, are_all=not named), time()
    return text("".join(clean_lines(shown_job(job, known, now, is_one_line="oneliner" in typed)) for job in found))


def clean_lines(lines: str) -> str:
    """Return lines without what a terminal would take for an order."""
    return "".join(clean(line) + "\n" for line in lines.splitlines())


def _change(client: ApiClient, verb: str, words: Sequence[str]) -> int:
    jobs = _jobs(client, words)
    if verb == "requeue":
        # A job that puts itself back, as submitit does, ends this command together with the rest of its attempt.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answer = client.change(f"jobs/{verb}", selectors=compact(int(job["id"]) for job in jobs))
    for note in answer["notes"]:
        say(PROGRAM, f"note: {clean(note)}")
    return 0


def _jobs(client: ApiClient, words: Sequence[str]) -> list[Job]:
    found: list[Job] = []
    ids = [part for word in words for part in word.lower().removeprefix("jobid=").split(",") if part]
    for id_, jobs in slurm_jobs.by_ids(client, ids):
        if not jobs:
            raise NotFound(f"Invalid job id specified for job {id_}")
        found += jobs
    return found


def _update(client: ApiClient, words: Sequence[str]) -> int:
    """Change jobs; all of the words are read before anything is changed."""
    pairs = [*words] if "=" in words[0] else [f"JobId={','.join(words[1:2])}", *words[2:]]
    ids, changes = list[str](), dict[str, object]()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name.lower() in ("jobid", "job"):
            ids.append(value)
            continue
        read = _UPDATES.get(name.lower())
        if read is None or not equals:
            known = "JobName, Partition, Priority, TimeLimit"
            raise BadInput(f"Update of this parameter is not supported: {shown(pair)}; there are {known}")
        changes |= read(value)
    if not ids or not changes:
        raise BadInput("update needs JobId=ID and what to change, such as TimeLimit=60")
    selectors = compact(int(job["id"]) for job in _jobs(client, ids))
    is_held = changes.get("priority") == 0
    if is_held:
        del changes["priority"]
    if changes.keys() == {"priority"}:
        client.change("jobs/priority", selectors=selectors, **changes)  # also of a job that runs
    elif changes:
        client.change("jobs/edit", selectors=selectors, set=changes)
    if is_held:
        client.change("jobs/hold", selectors=selectors)
    return 0


def _limit(typed: str) -> dict[str, object]:
    limit = values.time_limit_s(typed, "TimeLimit")
    return {"time-limit": None if limit is None else f"{limit:.0f}s"}


#: By the name of a parameter: returns what is changed, by the names of options of `grass enqueue`.
_UPDATES: dict[str, Callable[[str], dict[str, object]]] = {
    "timelimit": _limit,
    "priority": lambda typed: {"priority": min(PRIORITY_MAX, values.number(typed, "Priority", 0))},
    "jobname": lambda typed: {"name": grass_name(typed)},
    "name": lambda typed: {"name": grass_name(typed)},
    "partition": lambda typed: {"queue": typed},
}


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
