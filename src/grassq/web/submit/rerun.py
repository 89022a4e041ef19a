"""The submitter of a job that is run again with changes."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core.job_options import Pairs
from grassq.core.model import FINAL
from grassq.errors import NotFound, Refused
from grassq.web.requests import Environment, Submitter

_pairs = msgspec.msgpack.Decoder(Pairs).decode


def rerun_submitter(batch: Batch, id_: int, now: Submitter) -> tuple[Submitter, int]:
    """Return the submitter of a job that runs job `id_` again, and the job's first run.

    A job of this machine keeps its environment, umask and directory if the caller's jobs are of this machine too.
    """
    job = batch.job(id_)
    if job is None:
        raise NotFound(f"there is no job {id_} to run again; without rerun_of the job is a new one")
    spec = job.spec
    if not now.caller.may_change(spec.by):
        raise Refused(f"job {id_} was submitted with another token; your token runs its own jobs again only")
    if job.state not in FINAL:
        raise Refused(f"job {id_} has not ended ({job.state}); only a finished job can be run again")
    first = job.rerun_of or job.id
    if not now.caller.is_at_home or spec.constraints.remote is not None:
        return now, first
    stored = batch.store.environment(spec.env_digest) or b"\x90"
    env = Environment(dict(_pairs(stored)), stored, spec.env_digest)
    cwd = spec.cwd if spec.cwd.startswith(b"/") else now.cwd
    return replace(now, env=env, umask=spec.umask, cwd=cwd), first
