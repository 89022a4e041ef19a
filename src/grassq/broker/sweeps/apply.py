"""Apply a sweep in a file again: read the jobs of its points, and submit what is new, changed or failed.

The jobs of a large sweep are read page by page, so another request may apply the same sweep meanwhile. `run` submits
only if the sweep has no newer job than those that were read; else the caller reads again. So no point is run twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from grassq.broker.batch import Batch
from grassq.broker.service import Draft, ids_of, recall, submit
from grassq.broker.sweeps import objects
from grassq.broker.sweeps.objects import NewSweep
from grassq.broker.tokens import Bearer
from grassq.core.sweeps.difference import PointJob, point_of
from grassq.core.sweeps.parameters import Parameters
from grassq.core.sweeps.sweep import Sweep
from grassq.core.syntax.selectors import BySweep

#: How many jobs one page has.
PAGE_JOBS = 200


class ThereSweep(Struct):
    """The jobs of a sweep that is there, as far as they were read."""

    sweep: Sweep | None = None
    #: The newest job of each point.
    jobs: dict[Parameters, PointJob] = field(default_factory=dict)
    #: The last job that was read.
    last: int = 0


def find(batch: Batch, name: str, token: str | None) -> Sweep | None:
    """Return the newest sweep in a file of this name and this token."""
    stored = batch.store.sweep_file(name, token)
    known = [*([] if stored is None else [stored]), *batch.changes.sweeps.values()]
    mine = {each.id: each for each in known if (each.name, each.kind, each.token) == (name, "file", token)}
    return mine[max(mine)] if mine else None


def read_page(batch: Batch, name: str, token: str | None, there: ThereSweep) -> tuple[ThereSweep, bool]:
    """Read some more jobs of a sweep; tell whether that were all."""
    sweep = there.sweep or find(batch, name, token)
    if sweep is None:
        return there, True
    upto = batch.next_id - 1
    found, after = batch.store.page(BySweep(sweep.id), there.last, upto, PAGE_JOBS)
    jobs = dict(there.jobs)
    for stored in found:
        job = batch.current(stored)
        jobs[point_of(job.spec.parameters)] = PointJob(job.id, job.state.value, job.spec.point)
    return ThereSweep(sweep, jobs, found[-1].id if found else there.last), after >= upto


def run(
    batch: Batch,
    drafts: Sequence[Draft],
    new: NewSweep,
    there: ThereSweep,
    key: str,
    digest: bytes,
    bearer: Bearer,
    token: str | None,
) -> list[int] | None:
    """Submit jobs as parts of a sweep, which is made if it is not there; return None if other jobs came meanwhile."""
    known = recall(batch, key, digest)
    if known is not None:
        return ids_of(known)
    sweep = find(batch, new.name or "", token)
    if (None if sweep is None else sweep.id) != (None if there.sweep is None else there.sweep.id):
        return None
    if sweep is None:
        return submit(batch, drafts, key, digest, new, bearer) if drafts else []
    is_newer = batch.store.last_of_sweep(sweep.id) > there.last
    if is_newer or any(job.spec.sweep == sweep.id for job in batch.changes.inserted.values()):
        return None
    if drafts:
        return submit(batch, drafts, key, digest, new, bearer, into=sweep)
    objects.renew(batch, sweep, new)
    return []
