"""Finds jobs by what Slurm's commands name: ids such as 12_3, states, users, partitions and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from grassq.compat.slurm.submission.arrays import SlurmId, read_id
from grassq.errors import NotFound
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import query

Job = dict[str, Any]

#: The most jobs of one list, and of one page that is asked for.
LIST_MAX = 100_000
PAGE = 500
LIVE = ("held", "waiting", "queued", "placed", "running")


class ArrayPlace(NamedTuple):
    """The place of a job in its array."""

    #: The id of the first job, which is the id of the array.
    first: int
    task: int


def array_place(job: Job) -> ArrayPlace | None:
    """Return the place of a job in its array; None if it is in none."""
    if job.get("array_index") is None or job.get("sweep") is None:
        return None
    return ArrayPlace(int(job["sweep"]), int(job["array_index"]))


def shown_id(job: Job) -> str:
    """Return the id of a job as Slurm writes it."""
    place = array_place(job)
    return str(job["id"]) if place is None else f"{place.first}_{place.task}"


def listed(client: ApiClient, states: Sequence[str]) -> tuple[list[Job], bool]:
    """Return the jobs in some states, newest first, and whether there are more than LIST_MAX."""
    found: list[Job] = []
    cursor: str | None = None
    while len(found) < LIST_MAX:
        asked = [("limit", PAGE), *(("state", state) for state in states), ("cursor", cursor)]
        answer = client.get("jobs" + query(asked))
        found += answer["jobs"]
        cursor = answer.get("next")
        if cursor is None:
            return found, False
    return found, True


def by_numbers(client: ApiClient, ids: Iterable[int]) -> list[Job]:
    """Return the jobs with these ids; those that do not exist are left out."""
    found: list[Job] = []
    every = sorted(set(ids))
    for start in range(0, len(every), PAGE):
        try:
            found += client.jobs(compact(every[start : start + PAGE]), limit=PAGE)["jobs"]
        except NotFound:
            continue
    return found


def by_ids(client: ApiClient, texts: Iterable[str]) -> Iterator[tuple[str, list[Job]]]:
    """Iterate over ids as typed, each with its jobs: none if it does not exist, all tasks for an array."""
    for text in texts:
        yield text, of_id(client, read_id(text))


def of_id(client: ApiClient, id_: SlurmId) -> list[Job]:
    """Return the jobs of an id."""
    found = by_numbers(client, [id_.job])
    place = array_place(found[0]) if found else None
    if place is None or place.first != id_.job:
        return [] if id_.tasks is not None else found
    tasks = _tasks(client, place)
    if id_.tasks is None:
        return tasks
    return [job for job in tasks if (own := array_place(job)) is not None and own.task in id_.tasks]


def _tasks(client: ApiClient, place: ArrayPlace) -> list[Job]:
    found: list[Job] = client.show([f"sweep:{place.first}"])["jobs"]
    return found
