"""squeue: lists jobs that have not ended, or those that are asked for."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import Any

from grassq import __version__
from grassq.cli.render import clean, document, text
from grassq.compat.slurm import job_view, slurm_jobs
from grassq.compat.slurm.formats import read_format, table
from grassq.compat.slurm.job_view import Standing
from grassq.compat.slurm.sbatch import answered, say, user_name
from grassq.compat.slurm.slurm_jobs import Job, array_place, shown_id
from grassq.compat.slurm.standing import standing
from grassq.compat.slurm.submission.arrays import index_ranges
from grassq.compat.slurm.submission.options import Reader, Typed, described
from grassq.core.names import shown
from grassq.errors import BadInput, NotFound
from grassq.net.client import ApiClient

PROGRAM = "squeue"
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
#: Columns of -O and the letters that are the same.
LONG_NAMES = {
    "jobid": "A", "jobarrayid": "i", "arrayjobid": "F", "arraytaskid": "K", "partition": "P", "name": "j",
    "username": "u", "userid": "U", "statecompact": "t", "state": "T", "timeused": "M", "timelimit": "l",
    "timeleft": "L", "numnodes": "D", "reasonlist": "R", "reason": "r", "nodelist": "N", "priority": "Q",
    "starttime": "S", "endtime": "e", "submittime": "V", "workdir": "Z", "account": "a", "numcpus": "C",
    "tres-per-node": "b", "gres": "b", "minmemory": "m", "command": "o", "batchhost": "B", "qos": "q", "comment": "k",
    "dependency": "E",
}  # fmt: skip
_WIDTH = 20
#: Options that leave jobs out.
_CHOOSING = {"account", "jobs", "name", "nodelist", "partition", "states"}
OPTIONS = described(
    "account/A= array/r format/o= Format/O= jobs/j? json long/l me name/n= noheader/h nodelist/w= partition/p= start "
    "states/t= user/u=",
    "all/a hide sort/S= verbose/v clusters/M= local federation",
)


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, "Usage: squeue [OPTIONS...]\n", reader):
        return 0
    if words and "jobs" in typed and not typed["jobs"]:
        typed["jobs"] = ",".join(words)  # -j 12
    elif words:
        raise BadInput(f"Unrecognized option: {shown(words[0])}")
    states = read_states(typed.get("states"), PROGRAM)
    jobs = chosen(client, typed, states)
    known = standing(client, jobs, are_all=not _CHOOSING & typed.keys())
    if "json" in typed:
        return document(_document(jobs, known))
    lines = _lines(typed, jobs, known)
    return text("".join(clean(line) + "\n" for line in lines))


def read_states(typed: str | None, program: str) -> frozenset[str] | None:
    """Return the states of -t; None for those of jobs that have not ended."""
    if typed is None:
        return None
    if typed.lower() == "all":
        return frozenset(job_view.STATES)
    found = set()
    for word in filter(None, typed.upper().split(",")):
        name = job_view.LETTERS.get(word, word)
        if name not in (*job_view.STATES, *job_view.UNUSED):
            valid = ",".join(job_view.STATES)
            raise BadInput(f"Invalid job state specified: {shown(word)}; valid job states include: {valid}")
        found.add(name)
        if name == "RUNNING":
            found |= {"CONFIGURING", "COMPLETING"}
    return frozenset(found)


def chosen(client: ApiClient, typed: Typed, states: frozenset[str] | None) -> list[Job]:
    """Return the jobs that the options choose."""
    if typed.get("jobs"):
        found = []
        for id_, jobs in slurm_jobs.by_ids(client, filter(None, typed["jobs"].split(","))):
            if not jobs:
                raise NotFound(f"Invalid job id specified: {id_}")
            found += jobs
    else:
        found, more = slurm_jobs.listed(client, slurm_jobs.LIVE if states is None else ())
        if more:
            say(PROGRAM, f"note: there are more jobs than {len(found):,}, which are listed")
    tests: list[Callable[[Job], bool]] = [lambda job: states is None or job_view.state_of(job) in states]
    if states is None and typed.get("jobs"):
        tests.append(lambda job: job["state"] in slurm_jobs.LIVE)
    for option, field in (("partition", "queue"), ("name", "name"), ("nodelist", "worker"), ("account", "project")):
        if option in typed:
            names = frozenset(typed[option].split(","))
            tests.append(lambda job, field=field, names=names: job.get(field) in names)  # type: ignore[misc]
    if "user" in typed and not {user_name(), str(os.getuid())} & set(typed["user"].split(",")):
        return []
    return sorted((job for job in found if all(test(job) for test in tests)), key=job_view.order_key)


def _lines(typed: Typed, jobs: list[Job], known: Standing) -> list[str]:
    chosen_format = typed.get("format") or (START if "start" in typed else LONG if "long" in typed else DEFAULT)
    if "Format" in typed:
        chosen_format = _from_long(typed["Format"])
    if "start" in typed:
        jobs = [job for job in jobs if job_view.state_of(job) == "PENDING"]
    rows: list[Job] = jobs if "array" in typed else _collapsed(jobs, known)
    fields = _fields(time(), known)
    return table(read_format(chosen_format, fields, "--format"), fields, rows, header="noheader" not in typed)


def _from_long(typed: str) -> str:
    """Return the letters for the names of -O."""
    parts = []
    for part in filter(None, typed.split(",")):
        name, _, width = part.partition(":")
        right = "." if width.startswith(".") else ""
        letter = LONG_NAMES.get(name.lower())
        if letter is None:
            raise BadInput(
                f"--Format: Invalid job format specification: {shown(name)}; there are {', '.join(LONG_NAMES)}"
            )
        digits = width.lstrip(".")
        parts.append(f"%{right}{digits if digits.isdigit() else _WIDTH}{letter}")
    return "".join(parts)


def _collapsed(jobs: Sequence[Job], known: Standing) -> list[Job]:
    """Put the tasks of an array that wait for the same reason into one row, as 12_[3-7]."""
    rows: list[Job] = []
    groups: dict[tuple[int, str], list[Job]] = {}
    for job in jobs:
        place = array_place(job)
        if place is None or job_view.state_of(job) != "PENDING":
            rows.append(job)
            continue
        key = place.first, job_view.reason_of(job, known)
        if key not in groups:
            groups[key] = []
            rows.append({**job, "tasks": groups[key]})
        groups[key].append(job)
    return rows


def _id(job: Job, known: Standing = job_view.NOTHING) -> str:
    tasks = job.get("tasks") or [job]
    places = [place for each in tasks if (place := array_place(each)) is not None]
    if len(places) < 2:
        return shown_id(job)
    first = places[0].first
    limit = f"%{known.at_once[first]}" if first in known.at_once else ""
    return f"{first}_[{index_ranges([place.task for place in places])}{limit}]"


def _fields(now: float, known: Standing) -> Mapping[str, tuple[str, Callable[[Job], str]]]:
    def left(job: Job) -> str:
        limit = job_view.limit_s(job)
        return job_view.short_span(None if limit is None else max(0.0, limit - job_view.elapsed_s(job, now)))

    def nodes(job: Job) -> str:
        return str(job.get("worker") or "") if job.get("started") else ""

    def task(job: Job) -> str:
        _, _, index = _id(job).partition("_")
        return index.strip("[]") or job_view.UNKNOWN

    return {
        "i": ("JOBID", lambda job: _id(job, known)),
        "A": ("JOBID", lambda job: str(job["id"])),
        "F": ("ARRAY_JOB_ID", lambda job: _id(job).partition("_")[0]),
        "K": ("ARRAY_TASK_ID", task),
        "P": ("PARTITION", lambda job: str(job["queue"])),
        "j": ("NAME", lambda job: str(job.get("name") or job["command"][0])),
        "u": ("USER", lambda job: user_name()),
        "U": ("UID", lambda job: str(os.getuid())),
        "t": ("ST", job_view.letters_of),
        "T": ("STATE", job_view.state_of),
        "M": ("TIME", lambda job: job_view.short_span(job_view.elapsed_s(job, now))),
        "l": ("TIME_LIMIT", lambda job: job_view.short_span(job_view.limit_s(job))),
        "L": ("TIME_LEFT", left),
        "D": ("NODES", lambda job: "1"),
        "R": ("NODELIST(REASON)", lambda job: job_view.nodes_or_reason(job, known)),
        "r": ("REASON", lambda job: job_view.reason_of(job, known)),
        "N": ("NODELIST", nodes),
        "B": ("EXEC_HOST", lambda job: nodes(job) or "n/a"),
        "Y": ("SCHEDNODES", lambda job: "(null)"),
        "Q": ("PRIORITY", lambda job: str(job_view.priority(job))),
        "p": ("PRIORITY", lambda job: str(job_view.priority(job))),
        "S": ("START_TIME", lambda job: job_view.local_time(job.get("started") or job.get("not_before"))),
        "e": ("END_TIME", lambda job: job_view.local_time(job.get("finished"))),
        "V": ("SUBMIT_TIME", lambda job: job_view.local_time(job.get("created"))),
        "Z": ("WORK_DIR", lambda job: str(job.get("cwd") or "")),
        "a": ("ACCOUNT", lambda job: job.get("project") or "(null)"),
        "C": ("CPUS", lambda job: str(job_view.cpus(job))),
        "b": ("TRES_PER_NODE", lambda job: f"gres:{job_view.gres(job)}" if job_view.gres(job) else job_view.UNKNOWN),
        "m": ("MIN_MEMORY", lambda job: f"{(job.get('request') or {}).get('mem', 0):g}M"),
        "o": ("COMMAND", lambda job: shlex.join(job["command"])),
        "E": ("DEPENDENCY", job_view.dependency_of),
        "q": ("QOS", lambda job: "(null)"),
        "k": ("COMMENT", lambda job: "(null)"),
    }


def _document(jobs: Sequence[Job], known: Standing) -> dict[str, Any]:
    """Return jobs in the fields of Slurm's JSON."""
    entries = [_entry(job, known) for job in jobs]
    return {"meta": {"Slurm": {"release": f"grass {__version__}"}}, "errors": [], "jobs": entries}


def _entry(job: Job, known: Standing) -> dict[str, Any]:
    place, limit = array_place(job), job_view.limit_s(job)
    times = {name: int(job_view.seconds_of(job.get(field)) or 0) for name, field in _TIMES.items()}
    return {
        "job_id": job["id"],
        "array_job_id": 0 if place is None else place.first,
        "array_task_id": None if place is None else place.task,
        "name": job.get("name") or "",
        "job_state": job_view.state_of(job),
        "state_reason": job_view.reason_of(job, known),
        "dependency": "" if (waits := job_view.dependency_of(job)) == "(null)" else waits,
        "partition": job["queue"],
        "account": job.get("project") or "",
        "user_name": user_name(),
        "user_id": os.getuid(),
        "nodes": job.get("worker") or "",
        "batch_host": job.get("worker") or "",
        "node_count": 1,
        "tasks": 1,
        "cpus": job_view.cpus(job),
        "tres_per_node": f"gres:{job_view.gres(job)}" if job_view.gres(job) else "",
        "priority": job_view.priority(job),
        "time_limit": None if limit is None else math.ceil(limit / 60),
        "restart_cnt": max(0, int(job.get("attempt") or 0) - 1),
        "exit_code": job_view.raw_status(job),
        "current_working_directory": job.get("cwd") or "",
        "command": shlex.join(job["command"]),
        **times,
    }


_TIMES = {"submit_time": "created", "start_time": "started", "end_time": "finished"}
