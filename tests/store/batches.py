"""Small batches for stores, and what became of them."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from grassq.core.model import Job, Outcome, State
from grassq.core.syntax.selectors import parse
from grassq.store.base import Changes
from grassq.store.relational import Store

ENV = b"\x90"
DIGEST = hashlib.sha256(ENV).digest()
#: More jobs than a test stores, when it wants all of them whole.
MANY = 10_000


def new(*jobs: Job, environments: dict[bytes, bytes] | None = None) -> Changes:
    """The changes that add jobs."""
    ours = {job.id: replace(job, spec=replace(job.spec, env_digest=job.spec.env_digest or DIGEST)) for job in jobs}
    return Changes(inserted=ours, environments=environments or {DIGEST: ENV})


def kept(store: Store, job_id: int) -> Job:
    """A job as stored."""
    return store.jobs(parse(str(job_id)), 1)[0]


def ended(store: Store, job_id: int, at: float = 5.0, code: int = 0) -> Job:
    """End a stored job, and give it as it is now."""
    before = kept(store, job_id)
    state = State.FAILED if code else State.SUCCEEDED
    after = replace(before, state=state, outcome=Outcome.EXITED, exit_code=code, finished=at)
    store.commit(Changes(updated={job_id: (before, after)}))
    return after


def text(store: Store, selector: str, limit: int = 100) -> list[int]:
    """The ids a selector names."""
    return [job.id for job in store.jobs(parse(selector), limit)]
