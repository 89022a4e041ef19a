"""The job documents of one call of sbatch or srun."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from grassq.compat.slurm.submission import values
from grassq.compat.slurm.submission.arrays import Array, read_array
from grassq.compat.slurm.submission.begin import begin_at
from grassq.compat.slurm.submission.options import Typed
from grassq.compat.slurm.submission.starter import Files, JobStart, starter_pairs, starter_words
from grassq.core.names import DEFAULT_QUEUE, is_name, shown
from grassq.errors import BadInput
from grassq.net.encoding import word_value

Document = dict[str, Any]
#: A word as JSON has it.
Word = str | dict[str, str]

PRIORITY_NEUTRAL, PRIORITY_MAX = 30, 1_000_000
#: What --nice without a value lowers the priority by.
NICE = 100
NAME_CHARS_MAX = 64
#: Seconds behind its start at which a job gets its signal at the earliest.
START_S = 1.0
_ONE = "jobs here have one node and one task; start the tasks inside of the script, as torchrun does"


class SlurmSubmitter(NamedTuple):
    """The user, the directory, the machine and the time of a submission."""

    cwd: bytes
    env: Mapping[bytes, bytes]
    host: str
    user: str
    uid: int
    gid: int
    #: Local time, without an offset.
    now: datetime
    #: A folder with Slurm's plain names.
    programs: str | None = None


class Work(NamedTuple):
    """What is to run."""

    #: None: the words are a command.
    script: bytes | None
    words: Sequence[bytes]
    #: The name of a job that is given none.
    name: str


class SlurmSubmission(NamedTuple):
    """The jobs of one call, and what is to be said of them."""

    #: The options of the job, or of all tasks of the array.
    job: Document
    command: list[Word]
    notes: list[str]
    array: Array | None


def submission(
    typed: Typed, work: Work, submitter: SlurmSubmitter, waits: Mapping[str, Sequence[str]]
) -> SlurmSubmission:
    """Return the jobs; `waits` has the selectors of the jobs to wait for, by field."""
    check_one(typed)
    notes: list[str] = []
    request, variables = _request(typed, notes)
    name = typed.get("job-name") or work.name
    passed, exported = values.export(typed.get("export", "ALL"), submitter.env)
    common: Document = {
        "name": grass_name(name),
        "request": request or None,
        "log_max": 0,
        **_placement(typed, notes),
        **_times(typed, submitter.now),
        **{field: list(selectors) for field, selectors in waits.items() if selectors},
    }
    if passed is None:
        common["env_from"] = "there"
    if "hold" in typed:
        common["hold"] = True
    if "requeue" in typed and "no-requeue" not in typed:
        common["on_lost"] = "requeue"
    if "chdir" in typed:
        common["cwd"] = word_value(values.os_bytes(typed["chdir"]))
    array = read_array(typed["array"]) if "array" in typed else None
    files = _files(typed, work, is_array=array is not None)
    variables += _known_variables(name, str(common["queue"]), submitter) + exported
    start = JobStart(
        work.script, work.words, variables, files, work.name, name, submitter.user, submitter.programs, array
    )
    pairs = starter_pairs(start)
    common["env"] = [[word_value(key), word_value(value)] for key, value in pairs]
    command = [word_value(word) for word in starter_words(start, len(pairs))]
    return SlurmSubmission(common, command, notes, array)


def grass_name(name: str) -> str:
    """Return a name that Grass takes, as near to a name of Slurm as possible."""
    if is_name(name):
        return name
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).lstrip("_.-")[:NAME_CHARS_MAX]
    if is_name(cleaned):
        return cleaned
    return f"job-{cleaned}"[:NAME_CHARS_MAX].rstrip("-") if cleaned else "job"


def check_one(typed: Typed) -> None:
    """Refuse several nodes or tasks, with the reason."""
    nodes = typed.get("nodes", "1")
    for part in nodes.split("-", 1):
        values.number(part, "--nodes")
    if values.number(nodes.split("-", 1)[0], "--nodes") > 1:
        raise BadInput(f"--nodes {shown(nodes)}: {_ONE}")
    for name in ("ntasks", "ntasks-per-node", "ntasks-per-gpu"):
        if name in typed and values.number(typed[name], f"--{name}") > 1:
            raise BadInput(f"--{name} {shown(typed[name])}: {_ONE}")


def _request(typed: Typed, notes: list[str]) -> tuple[dict[str, float | int], list[tuple[bytes, bytes]]]:
    """Return the amounts that are asked for, and the variables that tell them."""
    amounts: dict[str, float] = {}
    types: list[str] = []
    for name in ("gpus", "gpus-per-node", "gpus-per-task"):
        if name in typed:
            amounts["gpu"], found = values.gpus(typed[name], f"--{name}")
            types += found
    if "gres" in typed:
        named, found = values.gres(typed["gres"])
        amounts, types = {**amounts, **named}, types + found
    if types:
        notes.append(f"the type {', '.join(dict.fromkeys(types))} is not looked at: every GPU counts")
    gpu = amounts.get("gpu", 0.0)
    cpus = values.number(typed.get("cpus-per-task", "1"), "--cpus-per-task")
    if "cpus-per-gpu" in typed and gpu:
        cpus = math.ceil(values.number(typed["cpus-per-gpu"], "--cpus-per-gpu") * gpu)
    memory = _memory(typed, cpus, gpu)
    variables = [("SLURM_CPUS_ON_NODE", str(cpus)), ("SLURM_JOB_CPUS_PER_NODE", str(cpus))]
    if "cpus-per-task" in typed or "cpus-per-gpu" in typed:
        variables.append(("SLURM_CPUS_PER_TASK", str(cpus)))
    if memory:
        where = "CPU" if "mem-per-cpu" in typed else "NODE"
        variables.append((f"SLURM_MEM_PER_{where}", str(math.ceil(memory / (cpus if where == "CPU" else 1)))))
    pairs = [(name.encode(), value.encode()) for name, value in variables]
    if not amounts and not memory and "cpus-per-task" not in typed:
        return {}, pairs  # the default request of the queue
    amounts = {"cpu": cpus, **amounts, **({"mem": math.ceil(memory)} if memory else {})}
    return {name: int(amount) if amount == int(amount) else amount for name, amount in amounts.items() if amount}, pairs


def _memory(typed: Typed, cpus: int, gpu: float) -> float:
    """Return the MiB that are asked for; --mem=0, all of a node, asks for none."""
    if "mem" in typed:
        return values.memory_mib(typed["mem"], "--mem")
    if "mem-per-cpu" in typed:
        return cpus * values.memory_mib(typed["mem-per-cpu"], "--mem-per-cpu")
    if "mem-per-gpu" in typed:
        return math.ceil(gpu) * values.memory_mib(typed["mem-per-gpu"], "--mem-per-gpu")
    return 0.0


def _placement(typed: Typed, notes: list[str]) -> Document:
    """Return queue, worker, project and priority."""
    found: Document = {}
    queue, _, others = typed.get("partition", DEFAULT_QUEUE).partition(",")
    if others:
        notes.append(f"--partition: the job waits in {queue} only; a queue on several workers does the same")
    found["queue"] = queue
    if worker := typed.get("nodelist"):
        if "," in worker or "[" in worker:
            raise BadInput(f"--nodelist {shown(worker)}: name one worker, as sinfo -N lists them")
        found["worker"] = worker
    if account := typed.get("account"):
        if is_name(account):
            found["project"] = account
        else:
            notes.append(f"--account {shown(account)} cannot be the name of a project, so the job is in none")
    priority: int | None = None
    if "priority" in typed:
        priority = (
            values.number(typed["priority"], "--priority", 0) if typed["priority"].upper() != "TOP" else PRIORITY_MAX
        )
    if "nice" in typed:
        text = typed["nice"] or str(NICE)
        sign = -1 if text.startswith("-") else 1
        priority = (PRIORITY_NEUTRAL if priority is None else priority) - sign * values.number(
            text.lstrip("+-"), "--nice", 0
        )
    if priority is not None:
        found["priority"] = max(-PRIORITY_MAX, min(PRIORITY_MAX, priority))
    return found


def _times(typed: Typed, now: datetime) -> Document:
    found: Document = {}
    limit = values.time_limit_s(typed["time"]) if "time" in typed else None
    if limit is not None:
        found["time_limit_s"] = limit
    if "signal" in typed:
        name, seconds, _ = values.warning(typed["signal"])
        # Slurm takes a signal without a limit, and one that is due before the start: it comes at the start.
        if limit is not None and (before := min(float(seconds), limit - START_S)) > 0:
            found["warn_s"], found["warn_signal"] = before, name
    if "begin" in typed:
        at = begin_at(typed["begin"], now)
        if at > now.timestamp():
            found["at"] = at
    return found


def _files(typed: Typed, work: Work, *, is_array: bool) -> Files | None:
    mode = typed.get("open-mode", "truncate").lower()
    if not mode or not ("append".startswith(mode) or "truncate".startswith(mode)):
        raise BadInput(f"invalid --open-mode {shown(mode)}; write append or truncate")
    usual = None if work.script is None else "slurm-%A_%a.out" if is_array else "slurm-%j.out"
    output, error = typed.get("output", usual), typed.get("error")
    if output is None and error is None and "input" not in typed:
        return None
    return Files(output, error, typed.get("input"), append="append".startswith(mode))


def _known_variables(name: str, queue: str, submitter: SlurmSubmitter) -> list[tuple[bytes, bytes]]:
    ones = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_TASKS_PER_NODE")
    zeros = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_PRIO_PROCESS")
    texts = {
        **dict.fromkeys(ones, "1"),
        **dict.fromkeys(zeros, "0"),
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": "grass",
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_PARTITION": queue,
        "SLURM_JOB_USER": submitter.user,
        "SLURM_JOB_UID": str(submitter.uid),
        "SLURM_JOB_GID": str(submitter.gid),
        "SLURM_SUBMIT_HOST": submitter.host,
    }
    pairs = [(key.encode(), value.encode("utf-8", "surrogateescape")) for key, value in texts.items()]
    return [*pairs, (b"SLURM_SUBMIT_DIR", submitter.cwd)]
