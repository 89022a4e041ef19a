"""sacct: jobs with their results, also those that have ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from time import time

from grassq.cli.render import clean, document, text
from grassq.compat.slurm import job_view, slurm_jobs
from grassq.compat.slurm.formats import named_table, read_names
from grassq.compat.slurm.job_view import local_time, long_span
from grassq.compat.slurm.sbatch import answered, user_name
from grassq.compat.slurm.slurm_jobs import Job, shown_id
from grassq.compat.slurm.squeue import read_states
from grassq.compat.slurm.submission.begin import from_now_s
from grassq.compat.slurm.submission.options import Reader, Typed, described
from grassq.core.names import shown
from grassq.errors import BadInput
from grassq.net.client import ApiClient

PROGRAM = "sacct"
DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
OPTIONS = described(
    "accounts/A= allocations/X brief/b delimiter= endtime/E= format/o= helpformat/e jobs/j= json name= nodelist/N= "
    "noheader/n parsable/p parsable2/P partition/r= starttime/S= state/s= user/u= uid=",
    "allusers/a duplicates/D long/l noconvert truncate/T units= verbose/v array clusters/M= allclusters/L",
)
#: The columns, by name: the width, and what a job has there. A negative width is a column on the left.
Fields = Mapping[str, tuple[int, Callable[[Job], str]]]
_HOURS = {"today": 0, "midnight": 0, "noon": 12, "fika": 15, "teatime": 16}


def _codes(job: Job) -> str:
    return "{}:{}".format(*job_view.codes(job))


def _step(job: Job) -> str:
    """Return the step of a job: the script of sbatch, or the command of srun, whose two logs tell it."""
    return "0" if job.get("split") else "batch"


#: What the step of a job has in these columns.
_OF_STEP: dict[str, Callable[[Job], str]] = {
    "JobID": lambda job: f"{shown_id(job)}.{_step(job)}",
    "JobIDRaw": lambda job: f"{job['id']}.{_step(job)}",
    "JobName": lambda job: "batch" if _step(job) == "batch" else str(job.get("name") or ""),
    "State": lambda job: "CANCELLED" if job_view.is_ended_by_slurm(job) else job_view.state_of(job),
    "ExitCode": _codes,
    "Submit": lambda job: local_time(job.get("started"), "Unknown"),
    "NTasks": lambda job: "1",
}
#: Columns that are blank for a step, and that are blank for a job.
_OF_JOBS = frozenset(
    (
        *("User", "UID", "Partition", "Timelimit", "WorkDir", "Priority"),
        *("Reason", "Restarts", "ReqMem", "ReqTRES", "DerivedExitCode", "Eligible"),
    )
)
_OF_STEPS = ("NTasks",)
_BLANK = ("MaxRSS", "MaxVMSize", "AveRSS", "AveCPU", "QOS", "Comment", "WCKey", "Reservation", "TotalCPU", "CPUTime")


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, "Usage: sacct [OPTIONS...]\n", reader):
        return 0
    if words:
        raise BadInput(f"Unknown arguments: {shown(words[0])}")
    fields = _fields(time())
    known = {name.lower(): (name, width) for name, (width, _) in fields.items()}
    if "helpformat" in typed:
        return text("\n".join(fields) + "\n")
    columns = read_names(typed.get("format") or (BRIEF if "brief" in typed else DEFAULT), known, "--format")
    jobs = _jobs(client, typed)
    if "json" in typed:
        return document(
            {"errors": [], "jobs": [{name: value(job) for name, (_, value) in fields.items()} for job in jobs]}
        )
    rows = [
        {column.name: value(column.name) for column in columns}
        for job in jobs
        for value in _lines_of(job, fields, is_alone="allocations" in typed)
    ]
    if not {"parsable", "parsable2"} & typed.keys():
        lines = named_table(columns, rows, header="noheader" not in typed)
    else:
        mark = typed.get("delimiter") or "|"
        head = [] if "noheader" in typed else [[column.name for column in columns]]
        end = mark if "parsable" in typed else ""
        lines = [mark.join(line) + end for line in [*head, *([row[column.name] for column in columns] for row in rows)]]
    return text("".join(clean(line) + "\n" for line in lines))


def _lines_of(job: Job, fields: Fields, *, is_alone: bool) -> list[Callable[[str], str]]:
    """Return the lines of a job, each as its value by column: the job, and unless it is alone the step that has run."""

    def of_job(column: str) -> str:
        return "" if column in _OF_STEPS else fields[column][1](job)

    def of_step(column: str) -> str:
        if column in _OF_STEP:
            return _OF_STEP[column](job)
        return "" if column in _OF_JOBS else fields[column][1](job)

    return [of_job] if is_alone or not job_view.has_begun(job) else [of_job, of_step]


def _jobs(client: ApiClient, typed: Typed) -> list[Job]:
    """Return the chosen jobs, the first submitted first; without ids those of today."""
    if "jobs" in typed:
        found = [job for _, jobs in slurm_jobs.by_ids(client, filter(None, typed["jobs"].split(","))) for job in jobs]
    else:
        found, _ = slurm_jobs.listed(client, ())
    since = None if "jobs" in typed and "starttime" not in typed else _moment(typed.get("starttime", "today"))
    until = _moment(typed["endtime"]) if "endtime" in typed else None
    if since is not None:
        found = [job for job in found if (job_view.seconds_of(job.get("finished")) or since) >= since]
    if until is not None:
        found = [job for job in found if (job_view.seconds_of(job.get("created")) or 0.0) <= until]
    states = read_states(typed.get("state"), PROGRAM)
    if states is not None:
        found = [job for job in found if job_view.state_of(job) in states]
    for option, field in (("partition", "queue"), ("name", "name"), ("nodelist", "worker"), ("accounts", "project")):
        if option in typed:
            names = frozenset(typed[option].split(","))
            found = [job for job in found if job.get(field) in names]
    users = [*filter(None, f"{typed.get('user', '')},{typed.get('uid', '')}".split(","))]
    if users and not {user_name(), str(os.getuid())} & set(users):
        return []
    return sorted({job["id"]: job for job in found}.values(), key=lambda job: int(job["id"]))


def _moment(typed: str) -> float:
    now = datetime.now()
    if (after_s := from_now_s(typed, "time")) is not None:
        return now.timestamp() + after_s
    if typed.lower() in _HOURS:
        return now.replace(hour=_HOURS[typed.lower()], minute=0, second=0, microsecond=0).timestamp()
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%y", "%m%d%y", "%H:%M", "%H:%M:%S"):
        try:
            read = datetime.strptime(typed, form)
        except ValueError:
            continue
        return (
            read if "%Y" in form or "%y" in form else read.replace(year=now.year, month=now.month, day=now.day)
        ).timestamp()
    raise BadInput(f"Invalid time specification {shown(typed)}; write 2026-01-31, 2026-01-31T12:00 or now-2days")


def _state(job: Job) -> str:
    """Return the state of a job; of one that a user has cancelled also the number of the user."""
    is_cancelled = job["state"] == "cancelled"
    return f"CANCELLED by {os.getuid()}" if is_cancelled else job_view.state_of(job)


def _fields(now: float) -> Fields:
    """Return the columns."""

    def tres(job: Job) -> str:
        devices = [f"gres/{each.replace(':', '=')}" for each in filter(None, job_view.gres(job).split(","))]
        memory = (job.get("request") or {}).get("mem")
        return ",".join([f"cpu={job_view.cpus(job)}", *([f"mem={memory:g}M"] if memory else []), "node=1", *devices])

    return {
        "JobID": (-12, shown_id),
        "JobIDRaw": (-12, lambda job: str(job["id"])),
        "JobName": (10, lambda job: str(job.get("name") or job["command"][0])),
        "Partition": (10, lambda job: str(job["queue"])),
        "Account": (10, lambda job: job.get("project") or ""),
        "User": (9, lambda job: user_name()),
        "UID": (6, lambda job: str(os.getuid())),
        "AllocCPUS": (10, lambda job: str(job_view.cpus(job)) if job.get("started") else "0"),
        "ReqCPUS": (8, lambda job: str(job_view.cpus(job))),
        "NCPUS": (10, lambda job: str(job_view.cpus(job))),
        "ReqMem": (10, lambda job: f"{(job.get('request') or {}).get('mem', 0):g}M"),
        "ReqTRES": (10, tres),
        "AllocTRES": (10, lambda job: tres(job) if job.get("started") else ""),
        "State": (10, _state),
        "ExitCode": (8, lambda job: "0:0" if job_view.is_ended_by_slurm(job) else _codes(job)),
        "DerivedExitCode": (15, lambda job: "0:0"),
        "Elapsed": (10, lambda job: long_span(job_view.elapsed_s(job, now))),
        "ElapsedRaw": (10, lambda job: str(job_view.elapsed_s(job, now))),
        "Timelimit": (10, lambda job: long_span(job_view.limit_s(job))),
        "Submit": (19, lambda job: local_time(job.get("created"), "Unknown")),
        "Start": (19, lambda job: local_time(job.get("started"), "Unknown")),
        "End": (19, lambda job: local_time(job.get("finished"), "Unknown")),
        "Eligible": (19, lambda job: local_time(job.get("created"), "Unknown")),
        "NNodes": (8, lambda job: "1"),
        "NTasks": (8, lambda job: "1"),
        "NodeList": (15, lambda job: job.get("worker") or "None assigned"),
        "WorkDir": (20, lambda job: job.get("cwd") or ""),
        "Priority": (10, lambda job: str(job_view.priority(job))),
        "Reason": (22, job_view.reason_of),
        "Restarts": (8, lambda job: str(max(0, int(job.get("attempt") or 0) - 1))),
        "Cluster": (10, lambda job: "grass"),
        **{name: (10, lambda job: "") for name in _BLANK},
    }
