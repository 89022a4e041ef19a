"""Counts the jobs of sweeps by state. A sweep is known by its name: its jobs share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from grassq.broker.batch import Batch
from grassq.core.model import FINAL, HOLDING, State

#: The most sweeps of one answer; of more, those with the most jobs among the shown ones are told.
SWEEPS_MAX = 20
#: The fewest jobs of one name that are a sweep; cli/listing/tree.py has the same number.
JOBS_MIN = 2

Document = dict[str, object]


def sweep_documents(batch: Batch, jobs: Iterable[Document]) -> list[Document]:
    """Return the sweeps that some jobs are part of, each with the counts of all its jobs, the newest first."""
    newest: dict[str, Document] = {}
    times: Counter[str] = Counter()
    for job in jobs:
        name = job["name"]
        if isinstance(name, str):
            if name not in newest or _id(job) > _id(newest[name]):
                newest[name] = job
            # A sweep that still has work is told before one that is over.
            times[name] += 1 if job["state"] in FINAL else 1000
    found = []
    for name, _ in times.most_common(SWEEPS_MAX):
        counts = batch.store.named(name)
        if sum(counts.values()) >= JOBS_MIN:
            found.append((_id(newest[name]), _document(name, counts, newest[name]["queue"])))
    return [document for _, document in sorted(found, key=lambda each: each[0], reverse=True)]


def _id(job: Document) -> int:
    assert isinstance(job["id"], int)
    return job["id"]


def _document(name: str, counts: dict[str, int], queue: object) -> Document:
    return {
        "name": name,
        "queue": queue,
        "jobs": sum(counts.values()),
        "ended": sum(counts.get(state.value, 0) for state in FINAL),
        "running": sum(counts.get(state.value, 0) for state in HOLDING),
        "counts": {state.value: counts[state.value] for state in State if counts.get(state.value)},
    }
