"""The promise about where attempts are placed: on a worker that takes jobs, and this one, on the terms of its queue."""

from __future__ import annotations

from tests.sim.promises.promise import Broken, demand
from tests.sim.promises.time_limits import check_placement

from grassq.core.model import Constraints, Job, Offer, WorkerInfo
from grassq.core.resources.device_changes import ChangedDevices
from grassq.core.syntax.resource_names import VRAM
from grassq.store.base import Loaded


def check_placed(job: Job, loaded: Loaded) -> None:
    """A new attempt is on a worker that takes jobs, and this job."""
    assert job.placement is not None
    info = next((known for known in loaded.workers if known.name == job.placement.worker), None)
    if info is None:
        raise Broken(f"{job} was given to {job.placement.worker}, which was removed")
    worker_record = loaded.worker_records.get(info.name)
    demand(worker_record is None or not worker_record.drained, f"{job} was given to {info.name}, which is drained")
    offer = next((offer for offer in info.offers if offer.queue == job.spec.queue), None)
    demand(offer is not None, f"{job} was given to {info.name}, which has no such queue")
    assert offer is not None
    demand(_is_taken(job.spec.constraints, info, offer), f"{job} was given to {info}, against its terms")
    check_placement(job, offer)
    for name, held in job.placement.allocation.items():
        changed = info.devices.get("gpu" if name == VRAM else name, ChangedDevices())
        closed = {*changed.drained, *changed.removed} & (held.keys() if isinstance(held, dict) else set())
        demand(not closed, f"{job} was given {name} {closed} of {info.name}, which is drained or was removed")


def _is_taken(constraints: Constraints, info: WorkerInfo, offer: Offer) -> bool:
    remote = constraints.remote
    right_worker = constraints.worker in (None, info.name) and set(constraints.labels) <= set(info.labels)
    if remote is None or not right_worker:
        return right_worker
    if not offer.prefix:
        return offer.unsecure or remote.bare
    return not remote.own_cwd and not remote.shell and set(remote.env) <= set(offer.allow_env)
