"""Jobs of Grass, written as GPUPeasy writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grassq.net.client import ApiClient
from grassq.net.encoding import query

#: The most jobs of one list, and of one page that is asked for.
LIST_MAX = 10_000
PAGE = 500

SCHEDULED = ("held", "waiting", "queued")
RUNNING = ("placed", "running")
SUCCEEDED = ("succeeded",)
FAILED = ("failed", "cancelled")
#: GPUPeasy's word for each state; `Killed` is new.
STATUS = {
    **dict.fromkeys(SCHEDULED, "Scheduled"),
    **dict.fromkeys(RUNNING, "Running"),
    "succeeded": "Succeeded",
    "failed": "Failed",
    "cancelled": "Killed",
}
#: The return code of a command that could not be started, or whose end is unknown.
NO_CODE = -1

Document = dict[str, Any]


def jobs_of(client: ApiClient, queue: str, states: Sequence[str]) -> tuple[list[Document], bool]:
    """Return the newest jobs of a queue in some states, the oldest of them first, and whether there are more."""
    found: list[Document] = []
    for page in pages(client, queue, states):
        found += page
        if len(found) > LIST_MAX:
            return sorted(found[:LIST_MAX], key=_id), True
    return sorted(found, key=_id), False


def pages(client: ApiClient, queue: str, states: Sequence[str] = ()) -> Iterator[list[Document]]:
    """Iterate over the jobs of a queue, newest first, a page at a time; at most LIST_MAX jobs and one page."""
    cursor: str | None = None
    for _ in range(LIST_MAX // PAGE + 1):
        asked = [("queue", queue), ("limit", PAGE), *(("state", state) for state in states), ("cursor", cursor)]
        answer = client.get("jobs" + query(asked))
        yield answer["jobs"]
        cursor = answer.get("next")
        if cursor is None:
            return


def _id(job: Document) -> int:
    return int(job["id"])


class JobWriter:
    """Writes jobs as GPUPeasy does."""

    def __init__(self, project: str | None, entries: Sequence[str]) -> None:
        """`project` is that of the server, which is left out of names; `entries` is the device list."""
        self._project = project
        self._entries = entries

    def listed(self, job: Document) -> Document:
        """Return a job as an entry of a list."""
        return {
            "jobID": job["id"],
            "jobid": job["id"],
            "jobName": self._name(job),
            "jobCommand": job["command"],
            "project": job.get("project"),
        }

    def ended(self, job: Document) -> Document:
        """Return a job that has ended as an entry of a list."""
        return {**self.listed(job), "returnCode": return_code(job), "status": STATUS[job["state"]]}

    def running(self, job: Document) -> Document:
        """Return a job that runs as an entry of a list, with its device and its pid."""
        return {**self.listed(job), "gpu": self._device(job), "pid": job.get("pid")}

    def info(self, job: Document) -> Document:
        """Return everything that GPUPeasy tells of a job, and its device and pid while it runs."""
        found = {
            **self.listed(job),
            "outFile": job.get("output"),
            "status": STATUS[job["state"]],
            "returnCode": return_code(job),
            "error": job.get("error"),
            "priority": job.get("priority"),
        }
        return found if job["state"] not in RUNNING else {**found, **self.running(job)}

    def _name(self, job: Document) -> str:
        name, project = str(job.get("name") or f"job-{job['id']}"), job.get("project")
        return name if project in (None, self._project) else f"{project}/{name}"

    def _device(self, job: Document) -> str:
        """Return the entry of the device list that a job holds; the list may have changed since its start."""
        held = job.get("allocation") or {}
        ids = [*(held.get("gpu") or {})]
        for index in held.get("slot") or {}:
            if str(index).isdigit() and int(index) < len(self._entries):
                entry = self._entries[int(index)]
                if set(filter(None, entry.split(","))) == set(ids):
                    return entry
        return ",".join(ids)


def return_code(job: Document) -> int | None:
    """Return the exit code, or the signal as a negative number; None for a job that has no such end."""
    if job["state"] not in (*SUCCEEDED, *FAILED):
        return None
    if job.get("outcome") in ("spawn_failed", "lost", "unknown"):
        return NO_CODE
    if job.get("signal") is not None:
        return -int(job["signal"])
    code = job.get("exit_code")
    return None if code is None else int(code)
