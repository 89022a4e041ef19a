"""Counts the jobs of sweeps by state. A sweep is known by its name: its jobs share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.documents.overview import SweepDocument
from grassq.core.model import FINAL, HOLDING, State

#: The most sweeps of one answer; of more, those with the most jobs among the shown ones are told.
SWEEPS_MAX = 20
#: The fewest jobs of one name that are a sweep; cli/listing/tree.py has the same number.
JOBS_MIN = 2


def sweep_documents(batch: Batch, jobs: Iterable[JobDocument]) -> list[SweepDocument]:
    """Return the sweeps that some jobs are part of, each with the counts of all its jobs, the newest first."""
    newest: dict[str, JobDocument] = {}
    times: Counter[str] = Counter()
    for job in jobs:
        name = job["name"]
        if name is not None:
            if name not in newest or job["id"] > newest[name]["id"]:
                newest[name] = job
            # A sweep that still has work is told before one that is over.
            times[name] += 1 if job["state"] in FINAL else 1000
    found = []
    for name, _ in times.most_common(SWEEPS_MAX):
        counts = batch.store.named(name)
        if sum(counts.values()) >= JOBS_MIN:
            found.append((newest[name]["id"], sweep_document(name, counts, newest[name]["queue"])))
    return [document for _, document in sorted(found, key=lambda each: each[0], reverse=True)]


def sweep_document(name: str, counts: Mapping[str, int], queue: str) -> SweepDocument:
    """Return a sweep with its jobs counted; `queue` is that of the newest job."""
    return {
        "name": name,
        "queue": queue,
        "jobs": sum(counts.values()),
        "ended": sum(counts.get(state.value, 0) for state in FINAL),
        "running": sum(counts.get(state.value, 0) for state in HOLDING),
        "counts": {state.value: counts[state.value] for state in State if counts.get(state.value)},
    }
