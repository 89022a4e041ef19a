"""sbatch: stores a script as a job, or an array of jobs."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from grassq import slurm_links
from grassq.cli.render import clean, text
from grassq.compat.slurm import slurm_jobs
from grassq.compat.slurm.job_view import codes, local_time, seconds_of
from grassq.compat.slurm.submission.dependencies import STARTED, read_dependencies
from grassq.compat.slurm.submission.job_document import (
    SlurmSubmission,
    SlurmSubmitter,
    Work,
    grass_name,
    submission,
)
from grassq.compat.slurm.submission.options import SBATCH, Reader, Typed
from grassq.compat.slurm.submission.script import SCRIPT_MAX, check_script, read_options, wrapped
from grassq.core.names import shown
from grassq.errors import BadInput, GrassError, NotFound, Refused
from grassq.home import Sender, environment_text
from grassq.net.client import POLL_LIMIT_S, ApiClient, compact
from grassq.net.encoding import FINAL_STATES

PROGRAM = "sbatch"
_HELP = """\
Usage: sbatch [OPTIONS...] [SCRIPT [ARGUMENTS...]]
       sbatch [OPTIONS...] --wrap LINE
Options, as under Slurm, also in #SBATCH lines of the script:
"""


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, SBATCH)
    typed, rest = reader.read(argv)
    if answered(PROGRAM, typed, _HELP, reader):
        return 0
    work, typed = _work(typed, rest, reader)
    if {"test-only", "dry-run"} & typed.keys():
        return _would(client, typed, work)
    sent = prepared(client, PROGRAM, typed, work)
    for note in [] if "quiet" in typed else [*reader.notes(typed), *sent.notes]:
        say(PROGRAM, f"note: {note}")
    ids = stored(client, sent, "Batch job submission failed")
    if "quiet" not in typed or "parsable" in typed:
        text(f"{ids[0]}\n" if "parsable" in typed else f"Submitted batch job {ids[0]}\n")
    return wait_for(client, ids) if "wait" in typed else 0


def stored(client: ApiClient, sent: SlurmSubmission, failure: str) -> list[int]:
    """Submit the jobs of one call, all or none, and return their ids."""
    try:
        if sent.array is None:
            ids: list[int] = client.submit([{**sent.job, "command": sent.command}], wait_for_queue=False)["ids"]
            return ids
        answer = client.submit_many([sent.command], sent.job, wait_for_queue=False, more=_array(sent))
        return list(range(answer["first"], answer["first"] + answer["count"]))
    except GrassError as error:
        raise type(error)(f"{failure}: {error}") from None


def _array(sent: SlurmSubmission) -> dict[str, object]:
    """Return the indexes of an array as the daemon reads them; nothing for a job that is no array."""
    if sent.array is None:
        return {}
    limit = "" if sent.array.at_once is None else f"%{sent.array.at_once}"
    return {"array": ",".join(map(str, sent.array.indices)) + limit}


def say(program: str, message: str) -> None:
    """Write a line to stderr."""
    text(f"{program}: {message}\n", fd=2)


def answered(program: str, typed: Typed, usage: str, reader: Reader) -> bool:
    """Print help or version if that was asked for, and tell whether it was."""
    if "version" in typed:
        from grassq import __version__

        text(f"{program} of grass {__version__}\n")
    elif "help" in typed or "usage" in typed:
        text(usage + reader.listed())
    return bool({"version", "help", "usage"} & typed.keys())


def _work(typed: Typed, rest: list[str], reader: Reader) -> tuple[Work, Typed]:
    """Return what is to run, and the options: those of the script, of variables, and of the command line."""
    if "wrap" in typed:
        if rest:
            raise BadInput("Script arguments not permitted with --wrap option")
        content, name = wrapped(typed["wrap"]), "wrap"
    elif rest:
        content, name = _read(_found(rest[0])), Path(rest[0]).name
    else:
        content, name = sys.stdin.buffer.read(SCRIPT_MAX + 1), PROGRAM
    check_script(content)
    every = {**read_options(content, reader), **reader.from_environment(environment_text()), **typed}
    return Work(content, [os.fsencode(word) for word in rest[1:]], name), every


def _found(name: str) -> str:
    """Return the path of a script: in the current directory, or on PATH."""
    return name if "/" in name or Path(name).exists() else shutil.which(name) or name


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(SCRIPT_MAX + 1)
    except OSError as error:
        raise NotFound(f"Unable to open file {shown(path)}: {error.strerror}") from None


def prepared(client: ApiClient, program: str, typed: Typed, work: Work) -> SlurmSubmission:
    """Return the documents of one call, with the dependencies looked up."""
    sender = Sender.to(client.broker)
    waits = _waits(client, typed, work) if "dependency" in typed else JobsToAwait()
    submitter = SlurmSubmitter(
        cwd=sender.cwd,
        env=sender.env,
        host=socket.gethostname(),
        user=user_name(),
        uid=os.getuid(),
        gid=os.getgid(),
        now=datetime.now(),
        programs=slurm_links.job_programs(client.home),
    )
    made = submission(typed, work, submitter, waits.selectors)
    if waits.until > submitter.now.timestamp():
        made.job["at"] = max(waits.until, made.job.get("at", 0.0))
    return made._replace(notes=[*waits.notes, *made.notes])


def user_name() -> str:
    """Return the name of this user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


class JobsToAwait(NamedTuple):
    """What a job waits for."""

    #: The selectors of jobs, by field of the document.
    selectors: Mapping[str, list[str]] = {}
    #: The time before which it does not start, in seconds since the epoch.
    until: float = 0.0
    notes: Sequence[str] = ()


def _waits(client: ApiClient, typed: Typed, work: Work) -> JobsToAwait:
    """Return what --dependency means for the jobs as they are now."""
    read = read_dependencies(typed["dependency"], is_array="array" in typed)
    ids: dict[str, list[int]] = {}
    until, notes = 0.0, list[str]()
    for each in read.jobs:
        found = slurm_jobs.of_id(client, each.id)
        if not found:
            raise NotFound(f"--dependency {shown(typed['dependency'])}: there is no job {each.id.job}")
        if each.field != STARTED:
            ids.setdefault(each.field, []).extend(int(job["id"]) for job in found)
            continue
        begun = [job for job in found if job.get("started") or job["state"] in FINAL_STATES]
        until = max(until, *(each.delay_s + (seconds_of(job.get("started")) or 0.0) for job in begun), 0.0)
        if len(begun) < len(found):
            ids.setdefault("after_any", []).extend(int(job["id"]) for job in found if job not in begun)
            notes.append(
                f"--dependency=after:{each.id.job} waits for the end of the job, which has not started: here no job "
                "waits for a start"
            )
    if read.singleton:
        name = grass_name(typed.get("job-name") or work.name)
        live, _ = slurm_jobs.listed(client, slurm_jobs.LIVE)
        if same := [int(job["id"]) for job in live if job.get("name") == name]:
            ids.setdefault("after_any", []).extend(same)
    return JobsToAwait({field: compact(found) for field, found in ids.items()}, until, notes)


def _would(client: ApiClient, typed: Typed, work: Work) -> int:
    """Say when and where a job would start, as Slurm does; what is refused is exit 1, as under Slurm."""
    try:
        sent = prepared(client, PROGRAM, typed, work)
        would = client.submit_many([sent.command], sent.job, wait_for_queue=False, more=_array(sent), dry_run=True)
    except (NotFound, Refused) as error:
        text(f"allocation failure: {clean(str(error))}\n", fd=2)
        return 1
    moment, nodes = would["not_before"], ",".join(would["workers"])
    at = local_time(datetime.now().timestamp() if nodes else moment)
    cpus = (sent.job["request"] or {}).get("cpu", 1)
    line = f"Job {would['id']} to start at {at} using {cpus} processors on nodes {nodes or '(null)'} in partition"
    say(PROGRAM, clean(f"{line} {would['queue']}" + ("" if nodes else f": {would['reason']}")))
    return 0


def wait_for(client: ApiClient, ids: list[int]) -> int:
    """Wait until jobs have ended; return the highest exit code, 1 for a job that has none."""
    for selector in compact(ids):
        while not client.wait([selector], timeout_s=POLL_LIMIT_S)["done"]:
            pass
    ended = slurm_jobs.by_numbers(client, ids)
    return max([_end_code(job) for job in ended], default=1)


def _end_code(job: slurm_jobs.Job) -> int:
    code, signal = codes(job)
    return code or int(bool(signal) or job["state"] != "succeeded")
