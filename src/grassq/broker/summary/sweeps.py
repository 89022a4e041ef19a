"""Counts the jobs of sweeps by state. Jobs that are part of no sweep and share a name are shown like one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.documents.overview import SweepDocument
from grassq.core.model import FINAL, HOLDING, State
from grassq.core.sweeps.sweep import Sweep

#: The most sweeps of one answer; of more, those with the most jobs among the shown ones are told.
SWEEPS_MAX = 20
#: The fewest jobs of one name that are a sweep; cli/listing/tree.py has the same number.
JOBS_MIN = 2


def sweep_documents(batch: Batch, jobs: Iterable[JobDocument]) -> list[SweepDocument]:
    """Return the sweeps that some jobs are part of, each with the counts of all its jobs, the newest first."""
    # By the id of the sweep, or else by name.
    newest: dict[int | str, JobDocument] = {}
    times: Counter[int | str] = Counter()
    for job in jobs:
        key = job["sweep"] or job["name"]
        if key is not None:
            if key not in newest or job["id"] > newest[key]["id"]:
                newest[key] = job
            # A sweep that still has work is told before one that is over.
            times[key] += 1 if job["state"] in FINAL else 1000
    chosen = [key for key, _ in times.most_common(SWEEPS_MAX)]
    sweeps = batch.store.sweeps([key for key in chosen if isinstance(key, int)])
    found = []
    for key in chosen:
        sweep = sweeps.get(key) if isinstance(key, int) else None
        counts = batch.store.of_sweep(key) if isinstance(key, int) else batch.store.named(key)
        if sum(counts.values()) >= JOBS_MIN:
            name = sweep.name if sweep is not None else newest[key]["name"] or ""
            found.append((newest[key]["id"], sweep_document(name, counts, newest[key]["queue"], sweep)))
    return [document for _, document in sorted(found, key=lambda each: each[0], reverse=True)]


def sweep_document(name: str, counts: Mapping[str, int], queue: str, sweep: Sweep | None = None) -> SweepDocument:
    """Return a sweep with its jobs counted; `queue` is that of the newest job."""
    return {
        "name": name,
        "id": None if sweep is None else sweep.id,
        "at_once": None if sweep is None else sweep.at_once,
        "max_fails": None if sweep is None else sweep.max_fails,
        "stopped": None if sweep is None else sweep.stopped,
        "queue": queue,
        "jobs": sum(counts.values()),
        "ended": sum(counts.get(state.value, 0) for state in FINAL),
        "running": sum(counts.get(state.value, 0) for state in HOLDING),
        "counts": {state.value: counts[state.value] for state in State if counts.get(state.value)},
    }
