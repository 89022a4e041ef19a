"""Finds why queued jobs wait: what is before them, a queue that is paused, and the limits of groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from grassq.compat.slurm.job_view import Standing, priority
from grassq.compat.slurm.slurm_jobs import Job
from grassq.net.client import ApiClient, compact

#: The most jobs that the daemon is asked about, and those of one request: one of each kind of jobs is enough.
ASKED_MAX, PAGE = 1_000, 200
#: The most queues whose first jobs are looked for, and the most jobs of each.
QUEUES_MAX, LINE_MAX = 20, 500
_LIMIT = re.compile(r"limit (?P<kind>sweep|project|tag):\S+ (?P<limit>[^:]*): (?P<why>[^;\n]*)")
_LACKS = re.compile(r"\S+ (?P<resource>\S+) needed")
_AT_ONCE = re.compile(r"jobs=(?P<count>\d{1,9})")
#: Slurm's word for the limit of an account, by resource; any other resource is a GRES.
_LIMITS = {"cpu": "AssocGrpCpuLimit", "mem": "AssocGrpMemLimit", "jobs": "AssocGrpJobsLimit"}
TASK_LIMIT = "JobArrayTaskLimit"


def standing(client: ApiClient, jobs: Sequence[Job], *, are_all: bool) -> Standing:
    """Return what tells why the queued ones of some jobs wait; `are_all` tells whether no queued job is left out."""
    queued = [job for job in jobs if job["state"] == "queued"]
    if not queued:
        return Standing()
    line = queued if are_all else _line(client, queued)
    paused = client.get("show", brief=1).get("paused") or ()
    alike = _alike(queued)
    texts: dict[int, str] = {}
    firsts = [same[0]["id"] for same in alike][:ASKED_MAX]
    for start in range(0, len(firsts), PAGE):
        answer = client.get("why", compact(firsts[start : start + PAGE]))
        texts |= {each["id"]: str(each["text"]) for each in answer["jobs"]}
    return from_words(line, paused, {same[0]["id"]: same for same in alike}, texts)


def _line(client: ApiClient, some: Iterable[Job]) -> list[Job]:
    """Return the jobs that wait longest in the queues of some jobs."""
    found: list[Job] = []
    for queue in sorted({str(job["queue"]) for job in some})[:QUEUES_MAX]:
        found += client.jobs(state="queued", queue=queue, order="asc", limit=LINE_MAX)["jobs"]
    return found


def from_words(
    queued: Iterable[Job], paused: Iterable[str], alike: dict[int, list[Job]], texts: dict[int, str]
) -> Standing:
    """Return what tells why queued jobs wait, from what the daemon says of one job of each kind."""
    heads: dict[str, Job] = {}
    for job in queued:
        before = heads.get(job["queue"])
        if before is None or (-priority(job), job["id"]) < (-priority(before), before["id"]):
            heads[job["queue"]] = job
    limited: dict[int, str] = {}
    at_once: dict[int, int] = {}
    for first, text in texts.items():
        if (match := _LIMIT.search(text)) is None:
            continue
        limited |= dict.fromkeys((int(job["id"]) for job in alike[first]), _word(match))
        if match["kind"] == "sweep" and (most := _AT_ONCE.search(match["limit"])) is not None:
            at_once[int(alike[first][0]["sweep"])] = int(most["count"])
    return Standing(frozenset(paused), frozenset(int(job["id"]) for job in heads.values()), limited, at_once)


def _alike(queued: Iterable[Job]) -> list[list[Job]]:
    """Return the queued jobs that are in groups, those together that ask for the same, the first in line first."""
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in sorted(queued, key=lambda job: (-priority(job), job["id"])):
        tags = tuple(sorted((job.get("tags") or {}).items()))
        if job.get("sweep") is not None or job.get("project") or tags:
            request = tuple(sorted((job.get("request") or {}).items()))
            key = job["queue"], job.get("sweep"), job.get("project"), tags, request
            kinds.setdefault(key, []).append(job)
    return list(kinds.values())


def _word(match: re.Match[str]) -> str:
    if match["kind"] == "sweep":
        return TASK_LIMIT
    if (lacks := _LACKS.match(match["why"])) is not None:
        return _LIMITS.get(lacks["resource"], "AssocGrpGRES")
    # Without amounts that are named, the number of jobs is the limit, or all of it is kept for the first of the group.
    resource = "jobs" if "jobs" in match["why"] else match["limit"].partition("=")[0]
    return _LIMITS.get(resource, "AssocGrpGRES")
