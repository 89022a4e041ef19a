"""A real worker with real processes behind the link: what it runs outlives the line, and its logs come through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.builders import a_capacity, a_request
from tests.link.harness import QUICK, Line, World, certificate, play, until, world

from grassq.core.model import State
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.worker.broker_link import BrokerLink, Endpoint
from grassq.worker.local_machine import LocalMachine
from grassq.worker.offers import OfferFile, Offers
from grassq.worker.worker import Worker


@asynccontextmanager
async def a_real_worker(one: World, line: Line) -> AsyncIterator[BrokerLink]:
    """The worker `w`, which dials over a line."""
    place = one.folder / "worker"
    place.mkdir(exist_ok=True)
    store_id = one.broker.engine.status.store_id
    way = Endpoint((line.address,), certificate()[1], "w.secret")
    link = BrokerLink(str(place), store_id, lambda: way, times=one.times)
    machine = LocalMachine(str(place), store=store_id, capacity=a_capacity(cpu=2), remote_broker=True)
    worker = Worker(machine, Offers(OfferFile("w"), str(place)), link.send)
    async with AsyncExitStack() as stack:
        await worker.start()
        stack.push_async_callback(worker.close)
        task = asyncio.create_task(link.run(worker))
        try:
            await until(lambda: link.online and one.broker.online("w"))
            yield link
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def state(one: World, job: int) -> State | None:
    """The state of a job; None when it is over."""
    found = one.broker.engine.decider.board.jobs.get(job)
    return None if found is None else found.state


def test_a_job_runs_on_while_the_line_is_cut_and_its_end_and_log_arrive(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo begun; while [ ! -e '{gate}' ]; do sleep 0.05; done; echo done; exit 7"

    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            async with a_real_worker(one, line) as link:
                job = await one.broker.submit(command=(b"/bin/sh", b"-c", script.encode()), request=())
                await until(lambda: state(one, job) is State.RUNNING)
                line.flows.clear()
                await until(lambda: not link.online and not one.broker.online("w"))
                assert state(one, job) is State.RUNNING
                gate.touch()
                line.flows.set()
                await until(lambda: state(one, job) is None)
                assert await one.broker.log(job) == (200, b"begun\ndone\n")
                (ended,) = await one.broker.engine.read(lambda batch: batch.store.recent(0, 10))
                assert (ended.exit_code, ended.attempt) == (7, 1)

    play(test)


def test_a_worker_daemon_that_ends_and_comes_back_tells_what_ended_meanwhile(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while [ ! -e '{gate}' ]; do sleep 0.05; done; echo done"

    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            async with a_real_worker(one, line):
                job = await one.broker.submit(command=(b"/bin/sh", b"-c", script.encode()), request=())
                await until(lambda: state(one, job) is State.RUNNING)
            await until(lambda: not one.broker.online("w"))
            gate.touch()
            exit_ = tmp_path / "worker" / "jobs" / str(job) / "1" / "exit"
            await until(exit_.exists)
            assert state(one, job) is State.RUNNING
            async with a_real_worker(one, line):
                await until(lambda: state(one, job) is None)
                (ended,) = await one.broker.engine.read(lambda batch: batch.store.recent(0, 10))
                assert (ended.exit_code, ended.attempt) == (0, 1)

    play(test)


def test_a_prefetched_attempt_is_withdrawn_and_the_connection_stays(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while [ ! -e '{gate}' ]; do sleep 0.05; done"

    async def test() -> None:
        async with world(tmp_path) as one:
            # Every attempt counts as short, so that jobs are prefetched on a slow machine too.
            one.broker.engine.decider.board.prefetch.policy = PrefetchPolicy(short_s=60.0)
            line = await Line(one.broker.address).open(one.stack)
            async with a_real_worker(one, line):
                all_of_it = a_request(cpu=2)
                short = [await one.broker.submit(command=(b"true",), request=all_of_it) for _ in range(3)]
                await until(lambda: all(state(one, job) is None for job in short))
                long = await one.broker.submit(command=(b"/bin/sh", b"-c", script.encode()), request=all_of_it)
                behind = await one.broker.submit(command=(b"true",), request=all_of_it)
                board = one.broker.engine.decider.board
                await until(lambda: board.jobs[behind].attempt == 1, "it was not prefetched")
                await until(lambda: state(one, behind) is State.QUEUED, "it was not withdrawn")
                assert state(one, long) is State.RUNNING
                gate.touch()
                await until(lambda: state(one, behind) is None)
                assert line.dialled == 1

    play(test)
