"""A job of Grass in Slurm's words: its state, its reason, its times and its amounts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from grassq.compat.slurm.slurm_jobs import Job, array_place

#: Slurm's name, letters and number of each state.
STATES = {
    "PENDING": ("PD", 0),
    "RUNNING": ("R", 1),
    "SUSPENDED": ("S", 2),
    "COMPLETED": ("CD", 3),
    "CANCELLED": ("CA", 4),
    "FAILED": ("F", 5),
    "TIMEOUT": ("TO", 6),
    "NODE_FAIL": ("NF", 7),
    "OUT_OF_MEMORY": ("OOM", 11),
    "CONFIGURING": ("CF", 1),
    "COMPLETING": ("CG", 1),
}
#: States of Slurm that no job has here; a filter may name them.
UNUSED = (
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "RESIZING",
    "REQUEUED",
    "REVOKED",
    "SPECIAL_EXIT",
    "STOPPED",
    "STAGE_OUT",
)
LETTERS = {letters: name for name, (letters, _) in STATES.items()}
#: By how an attempt ended, if it failed.
_FAILED = {
    "timed_out": "TIMEOUT",
    "idle": "TIMEOUT",
    "lost": "NODE_FAIL",
    "unknown": "NODE_FAIL",
    "oom": "OUT_OF_MEMORY",
}
_UNSUCCESSFUL = {
    "FAILED": "NonZeroExitCode",
    "TIMEOUT": "TimeLimit",
    "NODE_FAIL": "NodeDown",
    "OUT_OF_MEMORY": "OutOfMemory",
}
#: The outcome of a job that cannot start any more; Slurm cancels it.
_NEVER = "dependency_failed"
_WORDS = {"ok": "afterok", "any": "afterany", "fail": "afternotok"}
#: The most jobs of a dependency that are written.
DEPENDENCIES_SHOWN = 1_000
UNLIMITED = "UNLIMITED"
UNKNOWN = "N/A"


def state_of(job: Job) -> str:
    """Return the state of a job."""
    state = job["state"]
    if state in ("held", "waiting", "queued"):
        return "PENDING"
    if state == "placed":
        return "COMPLETING" if job.get("cancel_requested") else "CONFIGURING"
    if state == "running":
        if job.get("suspended"):
            return "SUSPENDED"
        return "COMPLETING" if job.get("cancel_requested") else "RUNNING"
    if state == "failed" and job.get("outcome") != _NEVER:
        return _FAILED.get(job.get("outcome") or "", "FAILED")
    return "COMPLETED" if state == "succeeded" else "CANCELLED"


def letters_of(job: Job) -> str:
    """Return the letters of a job's state: PD, R."""
    return STATES[state_of(job)][0]


class Standing(NamedTuple):
    """What of other jobs and queues tells why a job waits."""

    #: The queues that start nothing; an empty name for all.
    paused: frozenset[str] = frozenset()
    #: The first waiting job of each queue; empty if it is not known.
    heads: frozenset[int] = frozenset()
    #: The limit of a group that keeps a queued job from starting, in Slurm's words, by job.
    limited: Mapping[int, str] = {}
    #: How many tasks of an array run at once, by array, as far as it is known.
    at_once: Mapping[int, int] = {}


NOTHING = Standing()


def reason_of(job: Job, known: Standing = NOTHING) -> str:
    """Return why a job is not running, or did not succeed."""
    state, said = job["state"], str(job.get("reason") or "").lower()
    if state == "held":
        return "JobHeldUser"
    if state == "waiting":
        if job.get("after") and said.startswith("waits to start"):
            return "Dependency"
        return "BeginTime" if job.get("not_before") else "PartitionConfig"
    if state == "queued":
        if job["queue"] in known.paused or "" in known.paused:
            return "PartitionDown"
        if job["id"] in known.limited:
            return known.limited[job["id"]]
        return "Resources" if not known.heads or job["id"] in known.heads else "Priority"
    if job.get("outcome") == _NEVER:
        return "DependencyNeverSatisfied"
    return _UNSUCCESSFUL.get(state_of(job), "None")


def dependency_of(job: Job) -> str:
    """Return what a job that has not started waits for, as squeue writes it: afterok:12(unfulfilled)."""
    after = job.get("after") or {}
    if job["state"] not in ("held", "waiting"):
        return "(null)"
    parts = []
    for condition, ranges in after.items():
        for each in ranges[:DEPENDENCIES_SHOWN]:
            first, _, last = each.partition("-")
            ids = range(int(first), min(int(last or first), int(first) + DEPENDENCIES_SHOWN) + 1)
            parts += [f"{_WORDS[condition]}:{id_}(unfulfilled)" for id_ in ids]
    return ",".join(parts[:DEPENDENCIES_SHOWN]) or "(null)"


def seconds_of(given: str | float | None) -> float | None:
    """Return a time of a document in seconds since the epoch."""
    return datetime.fromisoformat(given).timestamp() if isinstance(given, str) else given


def local_time(given: str | float | None, unknown: str = UNKNOWN) -> str:
    """Return a time of a document as Slurm writes it."""
    seconds = seconds_of(given)
    return unknown if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%dT%H:%M:%S")


def elapsed_s(job: Job, now: float) -> int:
    """Return how long a job has run, without the time it was suspended; one that is to run again has not run."""
    if state_of(job) == "PENDING":
        return 0
    begun, ended = seconds_of(job.get("started")), seconds_of(job.get("finished"))
    stopped = seconds_of(job.get("suspended_since")) if ended is None else None
    until = stopped if stopped is not None else now if ended is None else ended
    return 0 if begun is None else max(0, int(until - begun - (job.get("suspended_s") or 0.0)))


def short_span(seconds: float | None) -> str:
    """Return a time as squeue writes it: 0:05, 1:00:00, 2-00:00:00."""
    if seconds is None:
        return UNLIMITED
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def long_span(seconds: float | None) -> str:
    """Return a time as sacct writes it: 00:00:05, 2-00:00:00."""
    if seconds is None:
        return UNLIMITED
    days, rest = divmod(int(seconds), 86400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def limit_s(job: Job) -> float | None:
    """Return the time limit of a job, or of its queue."""
    limit = job.get("effective_time_limit_s") or job.get("time_limit_s")
    return None if limit is None else float(limit)


def cpus(job: Job) -> int:
    """Return the CPUs of a job, at least one."""
    return max(1, int((job.get("request") or {}).get("cpu", 1)))


def gres(job: Job) -> str:
    """Return the devices of a job: gpu:2."""
    amounts = job.get("request") or {}
    named = [(name, amount) for name, amount in amounts.items() if name not in ("cpu", "mem", "disk", "vram")]
    return ",".join(f"{name}:{amount:g}" for name, amount in named)


def codes(job: Job) -> tuple[int, int]:
    """Return the exit code and the signal of a job that has ended."""
    signal = int(job.get("signal") or 0)
    if job.get("exit_code") is not None:
        return int(job["exit_code"]), 0
    stopped = (0, signal or 15) if job.get("started") else (0, 0)
    failed = (0, 0) if job.get("outcome") == _NEVER else (0, signal) if signal else (1, 0)
    ends = {"cancelled": stopped, "failed": failed}
    return ends.get(job["state"], (0, 0))


def has_begun(job: Job) -> bool:
    """Tell whether the command of a job runs, or has run."""
    return bool(job.get("started")) and state_of(job) != "PENDING"


def is_ended_by_slurm(job: Job) -> bool:
    """Tell whether a job has ended because it was told to: such a job has no code, but its step has a signal."""
    return state_of(job) in ("CANCELLED", "TIMEOUT", "NODE_FAIL")


def raw_status(job: Job) -> int:
    """Return the status of a job as wait(2) has it, which Slurm's JSON has."""
    code, signal = codes(job)
    return code << 8 | signal


def nodes_or_reason(job: Job, known: Standing = NOTHING) -> str:
    """Return where a job runs, or in parentheses why it does not."""
    state = state_of(job)
    if state in ("RUNNING", "COMPLETING", "CONFIGURING", "COMPLETED", "SUSPENDED"):
        return str(job.get("worker") or "")
    return f"({reason_of(job, known)})"


def priority(job: Job) -> int:
    """Return the priority of a job; of a held job 0, as under Slurm."""
    return 0 if job["state"] == "held" else int(job.get("priority") or 0)


def order_key(job: Job) -> tuple[Any, ...]:
    """Return the place of a job in squeue's list: by partition, state and priority."""
    place = array_place(job)
    first, index = (int(job["id"]), 0) if place is None else (place.first, place.task)
    return str(job["queue"]), STATES[state_of(job)][1], -priority(job), first, index
