"""Logs of jobs on other machines: read through the link byte for byte, and from a copy when the worker is away."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from tests.link.harness import QUICK, Line, Worker, World, certificate, play, until, world

from grassq.core.messages import Forget, Report
from grassq.core.model import Offer
from grassq.core.protocol import LogCut
from grassq.core.resources.amounts import ONE
from grassq.core.resources.device_changes import DeviceChange
from grassq.core.states import Started
from grassq.errors import NotFound, Refused
from grassq.run import attempt_notes, rundir
from grassq.run.log_cap import LogCap
from grassq.web.logs.cache import LogCache
from grassq.web.workers.connection import OutOfTouch

MIB = 1 << 20


async def a_job(one: World, worker: Worker, data: bytes, *, ends: bool = True, **more: object) -> int:
    """A job that runs on a worker and has this log; its id."""
    job = await one.broker.submit(worker.info.name, **more)
    await until(lambda: job in worker.started())
    worker.write_log(job, data)
    worker.link.send(Report(job, Started(1, 4711)))
    if ends:
        worker.report(job)
        await until(lambda: job not in one.broker.engine.decider.board.jobs)
    return job


async def copied(one: World, job: int) -> None:
    await until(lambda: one.broker.cache.copy(job, 1, "log") is not None)


async def away(one: World, worker: Worker) -> None:
    await worker.stop()
    await until(lambda: one.broker.links.get(worker.info.name) is None)


def test_a_log_of_five_megabytes_comes_byte_for_byte(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            data = random.Random(1).randbytes(5 * MIB + 17)
            job = await a_job(one, worker, data)
            assert await one.broker.log(job) == (200, data)
            assert await one.broker.log(job, offset=str(4 * MIB)) == (200, data[4 * MIB :])

    play(test)


def test_the_last_lines_are_found_on_the_worker(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await a_job(one, worker, b"".join(b"line %d\n" % n for n in range(100_000)))
            assert await one.broker.log(job, tail="2") == (200, b"line 99998\nline 99999\n")

    play(test)


def test_a_worker_of_an_earlier_release_is_never_asked_for_a_cut(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = one.worker("w")
            worker.info = replace(worker.info, cuts_logs=False)
            await until(lambda: worker.link.online and one.broker.online("w"))
            whole = b"".join(b"line %06d\n" % n for n in range(100_000))
            job = await a_job(one, worker, whole, ends=False)
            path = rundir.attempt_dir(str(worker.place), job, 1)
            LogCap(path, "log", 1 << 17).last_look()
            note, link = attempt_notes.read_cut(path, "log", len(whole)), one.broker.links.get("w")
            assert note is not None and link is not None
            assert await link.read(job, 1, "log", note.begin) == (b"", len(whole)), "as of a log that was truncated"
            assert await link.cut(job, 1, "log") is None

    play(test)


def test_a_log_that_was_cut_comes_with_its_mark(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            whole = b"".join(b"line %06d\n" % n for n in range(100_000))
            job = await a_job(one, worker, whole, ends=False)
            path = rundir.attempt_dir(str(worker.place), job, 1)
            LogCap(path, "log", 1 << 17).last_look()
            note = attempt_notes.read_cut(path, "log", len(whole))
            assert note is not None
            expected = whole[: note.begin] + note.mark + whole[note.end :]
            following = asyncio.create_task(one.broker.log(job, follow="1"))
            assert await one.broker.log(job) == (200, expected)
            inside = str(note.end - 5)
            assert await one.broker.log(job, offset=inside) == (200, note.mark[-5:] + whole[note.end :])
            # A client that counts its offset gets no end where the offset jumps; the next answer says where it goes on.
            with pytest.raises(aiohttp.ClientPayloadError):
                await one.broker.log(job, resume="1")
            into: dict[str, str] = {}
            said = await one.broker.log(job, into, resume="1", offset=str(note.begin))
            assert said == (200, expected[note.begin :])
            assert into["Grass-Offset"] == str(note.end - len(note.mark))
            worker.report(job)
            assert await following == (200, expected)
            await copied(one, job)
            copy = one.broker.cache.copy(job, 1, "log")
            assert copy is not None and copy.cut_at is not None

    play(test)


def test_a_log_is_followed_through_the_link_until_its_job_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await a_job(one, worker, b"first\n", ends=False)
            following = asyncio.create_task(one.broker.log(job, follow="1"))
            worker.write_log(job, b"first\nsecond\n")
            await asyncio.sleep(0)
            assert not following.done()
            worker.write_log(job, b"first\nsecond\nlast")
            worker.report(job)
            assert await following == (200, b"first\nsecond\nlast")

    play(test)


def test_a_follower_outlasts_a_cut_line(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            job = await a_job(one, worker, b"before\n", ends=False)
            got = bytearray()
            url = f"https://{one.broker.address}/v1/jobs/{job}/log?follow=1"
            pin = aiohttp.Fingerprint(certificate()[1])
            async with (
                aiohttp.ClientSession(headers={"Authorization": "Bearer ann.s"}) as session,
                session.get(url, ssl=pin) as answer,
            ):
                while got != b"before\n":
                    got += await answer.content.readany()
                line.cut()
                await until(lambda: worker.hellos == 2 and worker.link.online)
                worker.write_log(job, b"before\nafter\n")
                worker.report(job)
                got += await answer.content.read()
            assert got == b"before\nafter\n"

    play(test)


def test_a_worker_that_goes_away_in_the_middle_leaves_an_answer_without_its_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            job = await a_job(one, worker, b"x" * (5 * MIB), ends=False)
            url = f"https://{one.broker.address}/v1/jobs/{job}/log"
            pin = aiohttp.Fingerprint(certificate()[1])
            async with (
                aiohttp.ClientSession(headers={"Authorization": "Bearer ann.s"}) as session,
                session.get(url, ssl=pin) as answer,
            ):
                await answer.content.readany()
                line.flows.clear()
                with pytest.raises(aiohttp.ClientPayloadError):
                    await answer.read()

    play(test)


def test_a_log_nobody_can_read_now_is_refused_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await a_job(one, worker, b"some", ends=False)
            await away(one, worker)
            status, body = await one.broker.log(job)
            assert status == 409
            assert b"worker w is out of touch and no copy of this log is here" in body

    play(test)


def test_a_finished_log_is_copied_and_read_while_its_worker_is_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await a_job(one, worker, b"all of it\n" * 1000)
            await copied(one, job)
            # While the worker is there, it is asked: the log may have grown since.
            worker.write_log(job, b"the worker's own")
            assert await one.broker.log(job) == (200, b"the worker's own")
            await away(one, worker)
            assert await one.broker.log(job) == (200, b"all of it\n" * 1000)
            assert await one.broker.log(job, tail="1") == (200, b"all of it\n")

    play(test)


def test_both_streams_of_a_split_job_are_copied(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await one.broker.submit(split=True)
            await until(lambda: job in worker.started())
            worker.write_log(job, b"out\n", "out")
            worker.write_log(job, b"err\n", "err")
            worker.report(job)
            await until(lambda: all(one.broker.cache.copy(job, 1, stream) for stream in ("out", "err")))
            await away(one, worker)
            assert await one.broker.log(job) == (200, b"out\n")
            assert await one.broker.log(job, stream="err") == (200, b"err\n")

    play(test)


def test_of_a_long_log_the_beginning_and_the_end_are_kept_around_a_marked_cut(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            data = random.Random(2).randbytes(300_000)
            job = await a_job(one, worker, data)
            await copied(one, job)
            await away(one, worker)
            half = 32 << 10
            mark = b"\n[grass: %d bytes are not in this copy]\n" % (len(data) - 2 * half)
            assert await one.broker.log(job) == (200, data[:half] + mark + data[-half:])
            # An offset beyond the cut was counted in the log itself: the client is told to begin anew.
            headers: dict[str, str] = {}
            answer = await one.broker.log(job, headers, offset=str(half + 1))
            assert (headers["Grass-Shrank"], headers["Grass-Offset"]) == (str(half + 1), "0")
            assert answer == (200, data[:half] + mark + data[-half:])
            assert await one.broker.log(job, offset=str(half)) == (200, mark + data[-half:])

    play(test)


def test_the_copies_stay_within_their_room_and_the_oldest_go_first(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            jobs = []
            for _ in range(20):
                jobs.append(await a_job(one, worker, b"x" * 60_000))
                await copied(one, jobs[-1])
            folder = tmp_path / "cache"
            assert sum(path.stat().st_size for path in folder.iterdir()) <= MIB
            kept = [job for job in jobs if one.broker.cache.copy(job, 1, "log")]
            assert kept == jobs[-len(kept) :] and 10 < len(kept) < 20

    play(test)


def test_copies_survive_a_restart_and_are_removed_with_their_jobs(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            first = await a_job(one, worker, b"first")
            second = await a_job(one, worker, b"second")
            await copied(one, first)
            await copied(one, second)
            (tmp_path / "cache" / "9.1.log.part").write_bytes(b"torn")
            again = LogCache(tmp_path / "cache", one.broker.engine, lambda worker: None, most_bytes=MIB)
            again.start()
            assert again.describe()["logs"] == 2
            assert again.describe()["bytes"] == len(b"first" + b"second")
            assert not (tmp_path / "cache" / "9.1.log.part").exists()
            await one.broker.directory.remove([first], set())
            assert one.broker.cache.copy(first, 1, "log") is None
            assert one.broker.cache.copy(second, 1, "log") is not None
            await until(lambda: [o for o in worker.orders if isinstance(o, Forget)] == [Forget((first,))])

    play(test)


class _Slow:
    """A reader whose log never ends; `asked` counts the questions."""

    asked = 0

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        self.asked += 1
        await asyncio.sleep(0)
        return b"x", 1000

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        return 0


class _WithCut:
    """A reader of a log of 3000 bytes whose middle was cut out."""

    mark = b"[grass: 1000 bytes were cut]\n"

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        if offset < 1000:
            return b"a" * min(300, 1000 - offset), 3000
        return b"z" * min(300, max(0, 3000 - offset)) if offset >= 2000 else b"", 3000

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return LogCut(2000, self.mark)

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("log_max", "cut_at", "expected"),
    [
        (1 << 20, 1000, b"a" * 1000 + _WithCut.mark + b"z" * 1000),
        (2400, 1000, b"a" * 1000 + _WithCut.mark + b"z" * 1000),
        (1000, 500, b"a" * 500 + b"\n[grass: 2000 bytes are not in this copy]\n" + b"z" * 500),
        (2800, 1000, b"a" * 1000 + _WithCut.mark + b"z" * 1000),
    ],
)
def test_a_copy_of_a_log_that_was_cut_has_its_mark(log_max: int, cut_at: int, expected: bytes, tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            id_ = await a_job(one, worker, b"all of it")
            await copied(one, id_)
            folder = tmp_path / "other"
            cache = LogCache(folder, one.broker.engine, lambda worker: _WithCut(), most_bytes=8 * MIB, log_max=log_max)
            cache.start()
            cache.greet(worker.info.name)
            await until(lambda: cache.copy(id_, 1, "log") is not None)
            copy = cache.copy(id_, 1, "log")
            assert copy is not None and copy.cut_at == cut_at
            assert (await copy.read(id_, 1, "log", 0))[0] == expected
            await cache.close()

    play(test)


def open_below(folder: Path) -> list[Path]:
    """The descriptors of this process that are open on files of a folder."""
    return [path for path in Path("/proc/self/fd").iterdir() if folder in path.resolve().parents]


@pytest.mark.parametrize("turns", range(8))
def test_a_copy_that_is_given_up_midway_leaves_no_open_file_and_no_part(turns: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            await copied(one, await a_job(one, worker, b"all of it"))
            reader, folder = _Slow(), tmp_path / "other"
            cache = LogCache(folder, one.broker.engine, lambda worker: reader, most_bytes=MIB)
            cache.start()
            cache.greet(worker.info.name)
            await until(lambda: reader.asked)
            for _ in range(turns):
                await asyncio.sleep(0)
            await cache.close()
            await asyncio.get_running_loop().shutdown_default_executor()
            assert not list(folder.iterdir())
            assert not open_below(folder)

    play(test)


def test_what_ended_while_its_worker_went_away_is_copied_when_it_is_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await a_job(one, worker, b"late", ends=False)
            await away(one, worker)
            await one.broker.end(job)
            assert one.broker.cache.copy(job, 1, "log") is None
            await one.joined()
            await copied(one, job)

    play(test)


def test_a_queue_is_made_and_deleted_on_a_named_worker(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            await one.joined()
            queue_admin = one.broker.directory.queue_admin("w")
            assert await queue_admin.offer(Offer("train")) == ("created", ["a note"])
            await until(lambda: "train" in one.broker.engine.decider.board.queue_names())
            with pytest.raises(Refused, match="there is no such device"):
                await queue_admin.offer(Offer("bad"))
            await queue_admin.withdraw("train")
            await until(lambda: "train" not in one.broker.engine.decider.board.queue_names())
            with pytest.raises(OutOfTouch):
                one.broker.directory.queue_admin("nobody")
            with pytest.raises(Refused, match="name a worker"):
                one.broker.directory.queue_admin()

    play(test)


def test_devices_of_a_named_worker_are_changed_and_those_of_an_earlier_release_are_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            queue_admin = one.broker.directory.queue_admin("w")
            assert await queue_admin.change_devices(DeviceChange("add", ("0", "1"))) == []
            assert await queue_admin.change_devices(DeviceChange("drain", ("0",))) == []
            board = one.broker.engine.decider.board
            await until(lambda: board.workers["w"].drained_devices == {"gpu": {"0"}})
            job = await one.broker.submit(gpu=1)
            await until(lambda: worker.started() == [job])
            where = board.holding[job].placement
            assert where is not None and where.allocation == {"gpu": {"1": ONE}}
            with pytest.raises(NotFound, match="this machine has no gpu '9'"):
                await queue_admin.change_devices(DeviceChange("drain", ("9",)))
            await away(one, worker)
            worker.info = replace(worker.info, changes_devices=False, keeps_limits=False)
            worker.dial(one.stack)
            await until(lambda: one.broker.links.get("w") is not None)
            queue_admin = one.broker.directory.queue_admin("w")
            with pytest.raises(Refused, match="earlier release"):
                await queue_admin.change_devices(DeviceChange("drain", ("1",)))
            with pytest.raises(Refused, match="earlier release"):
                await queue_admin.offer(Offer("boxed", wrap=b"nice"))
            with pytest.raises(Refused, match="earlier release, which keeps no time limits"):
                await queue_admin.offer(Offer("timed", max_time_limit_s=60.0))

    play(test)


def test_a_question_to_a_worker_that_goes_away_is_answered_with_a_refusal(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            await one.joined(at=[line.address])
            line.flows.clear()
            asking = asyncio.create_task(one.broker.directory.queue_admin("w").offer(Offer("train")))
            with pytest.raises(OutOfTouch):
                await asking

    play(test)
