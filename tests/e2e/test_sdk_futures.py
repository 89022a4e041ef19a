"""Jobs as futures: callbacks, real futures and waiting for several jobs, with a real daemon."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from queue import SimpleQueue

import pytest
from tests.e2e.world import Grass, eventually

import grassq


def watching_threads() -> list[threading.Thread]:
    """The threads that hear of ends for clients of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "grassq-ends"]


def gated(client: grassq.Client, gate: str, code: int = 0) -> grassq.Job:
    """A job that ends when a file is there."""
    return client.submit(f"while [ ! -e {gate} ]; do sleep 0.02; done; exit {code}", cpu=0.1)


def test_jobs_come_in_the_order_they_end(client: grassq.Client, grass: Grass) -> None:
    with client:
        jobs = [gated(client, f"gate{number}", code=number) for number in range(3)]
        ended = grassq.as_completed(jobs, timeout=30)
        for number in (2, 0, 1):
            grass.write(f"gate{number}", "")
            job = next(ended)
            assert (job, job.exit_code) == (jobs[number], number)
        assert list(ended) == []


def test_wait_returns_as_told(client: grassq.Client, grass: Grass) -> None:
    with client:
        good, bad, endless = gated(client, "good"), gated(client, "bad", code=1), gated(client, "never")
        grass.write("good", "")
        first = grassq.wait([good, bad, endless], return_when=grassq.FIRST_COMPLETED)
        assert first == ({good}, {bad, endless})
        grass.write("bad", "")
        failed = grassq.wait([good, bad, endless], return_when=grassq.FIRST_EXCEPTION)
        assert failed == ({good, bad}, {endless})
        with pytest.raises(TimeoutError, match=r"^job 3 has not ended after 0\.05 s$"):
            client.wait([good, bad, endless], timeout=0.05)
        endless.cancel(grace_s=0)
        assert grassq.wait([good, bad, endless]).not_done == set()
        with pytest.raises(grassq.BadInput):
            grassq.wait([good], return_when="SOMETIME")


def test_callbacks_come_on_one_thread_however_many_jobs_there_are(client: grassq.Client, grass: Grass) -> None:
    with client:
        jobs = [gated(client, "go") for _ in range(20)]
        called: SimpleQueue[tuple[int, str]] = SimpleQueue()
        for job in jobs:
            job.add_done_callback(lambda job: called.put((job.id, threading.current_thread().name)))
            job.add_done_callback(lambda job: called.put((job.id, threading.current_thread().name)))
        [thread] = watching_threads()
        grass.write("go", "")
        heard = [called.get(timeout=30) for _ in range(40)]
        assert sorted(id_ for id_, _ in heard) == sorted([job.id for job in jobs] * 2)
        assert {name for _, name in heard} == {thread.name}
        jobs[0].add_done_callback(lambda job: called.put((job.id, threading.current_thread().name)))
        assert called.get(timeout=0) == (jobs[0].id, threading.current_thread().name), "at once, as it has ended"
    eventually(lambda: not watching_threads(), "the thread ends with its client")


def test_what_a_callback_raises_is_logged_and_hurts_no_other(
    client: grassq.Client, grass: Grass, caplog: pytest.LogCaptureFixture
) -> None:
    with client:
        job = gated(client, "go")
        called = threading.Event()
        job.add_done_callback(lambda job: 1 // 0)
        job.add_done_callback(lambda job: called.set())
        grass.write("go", "")
        assert called.wait(30)
    assert "a callback of job 1 failed" in caplog.text and "ZeroDivisionError" in caplog.text


def test_a_real_future_works_with_concurrent_futures(client: grassq.Client) -> None:
    with client:
        good = client.submit("echo 41 > $GRASS_RESULT_FILE")
        bad, endless = client.submit("exit 2"), client.submit(["sleep", 1000])
        futures = [job.future() for job in (good, bad, endless)]
        assert futures[2].cancel()
        done, left = concurrent.futures.wait(futures, timeout=30)
        assert (done, left) == (set(futures), set())
        assert futures[0].result() == 41
        assert isinstance(futures[1].exception(), grassq.JobFailed)
        assert futures[2].cancelled() and endless.cancelled()
        assert not futures[2].cancel() and not endless.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            endless.result()
        assert asyncio.run(_awaited(good)) == 41


async def _awaited(job: grassq.Job) -> object:
    return await asyncio.wrap_future(job.future())


def test_a_wait_goes_on_when_the_daemon_is_killed_and_started_again(client: grassq.Client, grass: Grass) -> None:
    with client:
        jobs = [gated(client, "go") for _ in range(3)]
        for job in jobs:
            grass.until(job.id, "running")
        called: SimpleQueue[int] = SimpleQueue()
        for job in jobs:
            job.add_done_callback(lambda job: called.put(job.id))
        future = jobs[0].future()
        eventually(watching_threads, "the client watches")
        grass.crash()
        grass.write("go", "")
        assert sorted(called.get(timeout=30) for _ in jobs) == [1, 2, 3]
        assert future.result(timeout=30) is None
        assert [job.state for job in client.wait(jobs, timeout=30)] == ["succeeded"] * 3


def test_jobs_of_two_homes_are_waited_for_together(client: grassq.Client, grass: Grass) -> None:
    with client, grassq.Client(grass.home.parent / "other") as other:
        try:
            jobs = [client.submit(["true"]), other.submit(["true"])]
            assert jobs[0].id == jobs[1].id and jobs[0] != jobs[1]
            assert set(grassq.as_completed(jobs, timeout=30)) == set(jobs)
        finally:
            other._requests.stop()


def test_a_job_that_was_removed_meanwhile_is_not_waited_for(client: grassq.Client) -> None:
    with client:
        job = client.submit(["true"]).wait(timeout=30)
        handle = client.jobs(job)[0]
        stale = type(job)(client, {"id": job.id})
        client.clean(handle)
        assert list(grassq.as_completed([stale], timeout=30)) == [stale]
        with pytest.raises(grassq.NotFound):
            stale.result(timeout=30)


def test_a_program_ends_although_its_jobs_are_watched(client: grassq.Client, grass: Grass) -> None:
    code = "import grassq; grassq.Client().submit(['sleep', 1000]).add_done_callback(print)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=grass.env, cwd=grass.cwd, capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with client:
        client.kill("all", grace_s=0)
