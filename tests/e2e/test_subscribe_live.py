"""Subscribed a temporary queue of a real daemon: order, whole and live output, crashes, and when the queue goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import DEADLINE_S, Grass, end, eventually

from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.event_stream import EventStream, Frame, JobEnded, JobOutput, JobShown, JobStarted

QUEUE = "sgs-0123abcd"
Told = JobStarted | JobOutput | JobEnded


class Subscribed:
    """Somebody who subscribed, in a thread: what he has heard so far."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self._heard: list[Frame] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        self._heard.extend(self.stream)

    def frames(self) -> list[Told]:
        """What was told of jobs."""
        return [frame for frame in list(self._heard) if not isinstance(frame, JobShown)]

    def until_ended(self, *jobs: int) -> list[Told]:
        """Every frame so far, once these jobs have ended."""
        eventually(lambda: set(jobs) <= {f.job for f in self.frames() if isinstance(f, JobEnded)}, f"{jobs} ended")
        return self.frames()

    def until(self, wanted: type[Told], job: int) -> Told:
        def found() -> list[Told]:
            return [frame for frame in self.frames() if type(frame) is wanted and frame.job == job]

        return eventually(found, f"{wanted} of {job}")[0]

    def close(self) -> None:
        self.stream.close()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


class Door:
    """What a door does with a daemon: make its queue, subscribe to it and submit."""

    def __init__(self, grass: Grass) -> None:
        self.grass = grass
        self.client = ApiClient(str(grass.home))
        self.subscribed: list[Subscribed] = []

    def make(self, limit: str = "--cpu=2") -> None:
        self.grass.ok("start")
        words = [QUEUE.encode(), limit.encode()]
        self.client.create_queue(words, cwd=os.fsencode(self.grass.cwd), temporary=True)

    def subscribe(self) -> Subscribed:
        subscribed = Subscribed(self.client.subscribe(QUEUE, lambda: (0, [])))
        self.subscribed.append(subscribed)
        return subscribed

    def submit(self, *lines: str) -> list[int]:
        env = {os.fsencode(k): os.fsencode(v) for k, v in self.grass.env.items()}
        cwd = os.fsencode(self.grass.cwd)
        made = self.client.submit_many(lines, {"queue": QUEUE}, Sender(cwd, env, 0o22))
        return list(range(made["first"], made["first"] + made["count"]))

    def has_queue(self) -> bool:
        return QUEUE in {each["name"] for each in self.client.show()["queues"]}

    def close(self) -> None:
        for subscribed in self.subscribed:
            subscribed.close()
        self.client.close()


@pytest.fixture
def door(grass: Grass) -> Iterator[Door]:
    door = Door(grass)
    yield door
    door.close()


def outputs(frames: list[Told]) -> dict[int, bytes]:
    """What each job wrote: each byte once, and no gap."""
    found: dict[int, bytes] = defaultdict(bytes)
    for frame in frames:
        if isinstance(frame, JobOutput):
            assert frame.offset == len(found[frame.job]), frame
            found[frame.job] += frame.data
    return found


def check_order(frames: list[Told], jobs: list[int]) -> None:
    """Of every job one start, then its output, then one end."""
    for job in jobs:
        kinds = [type(frame) for frame in frames if frame.job == job]
        assert kinds[0] is JobStarted and kinds[-1] is JobEnded, (job, kinds)
        assert set(kinds[1:-1]) <= {JobOutput}, (job, kinds)


def test_frames_come_in_order_and_output_is_whole_and_live(grass: Grass, door: Door) -> None:
    door.make()
    subscribed = door.subscribe()
    big = "seq 200000"
    ids = door.submit("echo first; until [ -e gate ]; do sleep 0.02; done; printf last", big, "exit 3", "kill -9 $$")
    first = subscribed.until(JobOutput, ids[0])
    assert first == JobOutput(ids[0], 1, 0, b"first\n")
    grass.open_gate("gate")
    frames = subscribed.until_ended(*ids)
    check_order(frames, ids)
    written = outputs(frames)
    assert written[ids[0]] == b"first\nlast"
    assert written[ids[1]] == "".join(f"{n}\n" for n in range(1, 200001)).encode()
    ends = {frame.job: frame for frame in frames if isinstance(frame, JobEnded)}
    assert [(ends[id_].state, ends[id_].exit_code, ends[id_].signal) for id_ in ids] == [
        ("succeeded", 0, None),
        ("succeeded", 0, None),
        ("failed", 3, None),
        ("failed", None, 9),
    ]
    starts = [frame for frame in frames if isinstance(frame, JobStarted)]
    assert [frame.job for frame in starts] == ids
    assert all(frame.allocation == {"cpu": 1} for frame in starts)


def test_many_brief_jobs_are_all_told_in_order(door: Door) -> None:
    door.make("--cpu=1")
    subscribed = door.subscribe()
    ids = door.submit(*(f"echo {n}" for n in range(200)))
    frames = subscribed.until_ended(*ids)
    check_order(frames, ids)
    assert outputs(frames) == {id_: f"{n}\n".encode() for n, id_ in enumerate(ids)}
    assert [frame.job for frame in frames if isinstance(frame, JobStarted)] == ids
    # On one processor nothing of the next job comes before the end of the one before.
    assert [frame.job for frame in frames] == sorted(frame.job for frame in frames)


def test_a_daemon_killed_in_the_middle_costs_no_byte_and_tells_none_twice(grass: Grass, door: Door) -> None:
    door.make()
    subscribed = door.subscribe()
    line = "for i in $(seq 60); do echo $i; sleep 0.02; done; until [ -e {} ]; do sleep 0.02; done; echo end"
    ids = door.submit(line.format("one"), line.format("two"), "echo three")
    subscribed.until(JobOutput, ids[0])
    grass.crash()
    for gate in ("one", "two"):
        grass.open_gate(gate)
    frames = subscribed.until_ended(*ids)
    check_order(frames, ids)
    whole = "".join(f"{n}\n" for n in range(1, 61)).encode() + b"end\n"
    assert outputs(frames) == {ids[0]: whole, ids[1]: whole, ids[2]: b"three\n"}
    assert door.has_queue(), "its door came back"


def test_the_queue_of_a_door_that_was_killed_goes_after_its_last_job_and_not_before(grass: Grass, door: Door) -> None:
    door.make()
    ids = door.submit("until [ -e gate ]; do sleep 0.02; done", "true")
    script = (
        "import sys; from grassq.net.client import ApiClient\n"
        f"for frame in ApiClient({str(grass.home)!r}).subscribe({QUEUE!r}, lambda: (0, [])): print(frame, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=grass.env) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"JobStarted")
        process.send_signal(signal.SIGKILL)
    grass.ended(ids[1])
    assert door.has_queue()
    grass.open_gate("gate")
    grass.until(ids[0], "succeeded")
    eventually(lambda: not door.has_queue(), "the queue goes")
    assert grass.job(ids[0])["queue"] == QUEUE, "its jobs stay"
    frames = door.subscribe().until_ended(*ids)
    check_order(frames, ids)


def test_a_subscribed_queue_stays_without_jobs_and_its_last_reader_takes_it_along(door: Door) -> None:
    door.make()
    one, two = door.subscribe(), door.subscribe()
    (job,) = door.submit("true")
    one.until_ended(job)
    two.until_ended(job)
    one.close()
    assert door.has_queue()
    (job,) = door.submit("echo again")
    assert outputs(two.until_ended(job))[job] == b"again\n"
    two.close()
    eventually(lambda: not door.has_queue(), "the queue goes")


def test_a_queue_whose_door_does_not_come_back_after_a_restart_goes(grass: Grass, door: Door, tmp_path: Path) -> None:
    door.make()
    grass.ok("create-queue", "lasting", "--cpu=1")
    (job,) = door.submit("until [ -e gate ]; do sleep 0.02; done")
    grass.until(job, "running")
    end(grass.daemon_pid())
    # The time that doors have is a minute; here it is a second.
    hurried = (
        "from grassq.web.events import temporary_queues; temporary_queues.BACK_S = 1.0\n"
        "from grassq.cli.main import main; main(['daemon'])"
    )
    argv = [os.fsencode(word) for word in (sys.executable, "-c", hurried)]
    with (tmp_path / "said").open("wb") as said:
        grass.foreground.append(subprocess.Popen(argv, env=grass.env, cwd=grass.cwd, stdout=said, stderr=said))
    pid = grass.foreground[-1].pid
    eventually(lambda: grass.daemon_pid() == pid and (grass.home / "grass.sock").exists(), "the next daemon")
    time.sleep(1.5)  # longer than doors have
    assert door.has_queue(), "its job runs"
    grass.open_gate("gate")
    eventually(lambda: not door.has_queue(), "the queue goes")
    assert "lasting" in {each["name"] for each in door.client.show()["queues"]}


def test_a_restart_takes_no_queue_along_and_who_subscribed_hears_on(grass: Grass, door: Door) -> None:
    door.make()
    subscribed = door.subscribe()
    (job,) = door.submit("true")
    subscribed.until_ended(job)
    grass.ok("restart")
    (job,) = door.submit("echo after")
    assert outputs(subscribed.until_ended(job))[job] == b"after\n"
    assert door.has_queue()
