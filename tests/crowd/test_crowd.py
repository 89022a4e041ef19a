"""Fifty real workers, five thousand jobs, and crashes in the middle of it: each job runs once, and its end is known."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from tests.crowd.crowd import Crowd, crowd
from tests.e2e.world import eventually

from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.encoding import new_key

WORKERS = 50
JOBS = 5_000
BULK = 500
#: So many at a time on one worker.
SLOTS = 2
#: An idle machine of two cores takes about 30 s; this one may be busy with other tests.
DEADLINE_S = 300.0
#: What the broker may hold at most; it was about 120 when this was written.
BROKER_MIB = 256


def _submit(client: ApiClient, keys: list[str]) -> list[int]:
    """One bulk of jobs for each key."""
    job = {"command": ["go"], "queue": "q", "request": {"cpu": 1}}
    ids: list[int] = []
    for key in keys:
        ids += client.submit([job] * BULK, Sender(b"/", {}, 0o022), key=key)["ids"]
    return ids


def _until_started(crowd: Crowd, count: int) -> None:
    eventually(lambda: crowd.started() >= count, f"{count} jobs have started", DEADLINE_S)


def _through_crashes(crowd: Crowd, keys: list[str]) -> tuple[list[int], int]:
    """Submit everything while the broker and some workers are killed; the ids, and the broker's memory until then."""
    early, meanwhile, late = keys[:4], keys[4:5], keys[5:]
    with crowd.submitter() as client, ThreadPoolExecutor(1) as aside:
        ids = _submit(client, early)
        _until_started(crowd, JOBS // 5)
        peak = crowd.broker.peak_mib()
        crowd.broker.kill()
        # Asked while nobody answers: repeated under its key until the broker is back.
        asked = aside.submit(_submit, client, meanwhile)
        crowd.broker.serve_again()
        ids += asked.result(DEADLINE_S)
        ids += _submit(client, late)
        _until_started(crowd, JOBS // 2)
        killed = crowd.workers[:3]
        for worker in killed:
            worker.kill()
        for worker in killed:
            worker.serve_again()
    return ids, peak


def _ended(crowd: Crowd) -> list[dict[str, Any]]:
    with crowd.submitter() as client:
        eventually(lambda: client.wait(["queue:q"], timeout_s=10)["done"], "every job is final", DEADLINE_S)
        found: list[dict[str, Any]] = client.show(["all"])["jobs"]
    return found


def _check_ledgers(crowd: Crowd, ids: list[int]) -> None:
    """What the jobs wrote down themselves: each began once and ended once, never too many at a time."""
    for what in ("begin", "end"):
        ran = Counter(line.job for worker in crowd.workers for line in worker.lines() if line.what == what)
        assert ran == Counter(ids), f"{what}: {ran - Counter(ids)} too often, {Counter(ids) - ran} missing"
    for worker in crowd.workers:
        depth = accumulate(1 if line.what == "begin" else -1 for line in worker.lines())
        assert 0 < max(depth) <= SLOTS, worker.name


def _check_records(crowd: Crowd, jobs: list[dict[str, Any]]) -> None:
    """What the broker tells is what happened, and where. A prefetched attempt may have been withdrawn before."""
    ran = {line.job: (line.attempt, worker.name) for worker in crowd.workers for line in worker.lines()}
    for job in jobs:
        code = job["id"] % 7
        state = "failed" if code else "succeeded"
        told = (job["state"], job["exit_code"], job["signal"], job["attempt"], job["worker"])
        assert told == (state, code, None, *ran[job["id"]]), job


def _check_logs(crowd: Crowd) -> None:
    """What a job of each worker wrote can be read through the broker."""
    with crowd.submitter() as client:
        for worker in crowd.workers:
            job = worker.lines()[-1].job
            assert b"".join(client.log(job)) == b"hello from %d\n" % job


@pytest.mark.timeout(900)
def test_fifty_workers_run_five_thousand_jobs_once_each_through_crashes(tmp_path: Path) -> None:
    keys = [new_key() for _ in range(JOBS // BULK)]
    with crowd(tmp_path, WORKERS) as found:
        assert found.online() == {worker.name for worker in found.workers}
        ids, peak = _through_crashes(found, keys)
        jobs = _ended(found)
        with found.submitter() as client:
            assert _submit(client, keys) == ids, "the same keys are the same submissions"
        assert sorted(ids) == [job["id"] for job in jobs] and len(set(ids)) == JOBS
        _check_ledgers(found, ids)
        _check_records(found, jobs)
        _check_logs(found)
        eventually(lambda: len(found.online()) == WORKERS, "every worker is in touch in the end")
        assert max(peak, found.broker.peak_mib()) < BROKER_MIB
