"""What every machine promises its worker: this computer with real processes, and a fake without any."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_placement, a_spec
from tests.worker.fake_machine import FakeMachine

from grassq.core.messages import Report, Start
from grassq.core.model import AttemptId, Outcome
from grassq.core.protocol import pack
from grassq.core.reconcile import RunState
from grassq.core.states import Exited
from grassq.core.syntax.file_words import SentTree
from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.run import processes, rundir
from grassq.run.lease_timer import boottime
from grassq.run.rundir import ACKED, UNRECORDED, Lease
from grassq.worker.local_machine import LocalMachine
from grassq.worker.machine import Inventory, Machine

SOON_S = 30.0
PATH = (b"PATH", b"/usr/local/bin:/usr/bin:/bin")


class Stage:
    """A machine, and what it has told."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.reports: list[dict[str, Any]] = []
        self.gone: list[AttemptId] = []

    def heard(self, report: dict[str, Any]) -> None:
        self.reports.append(report)

    def shim_gone(self, attempt: AttemptId) -> None:
        self.gone.append(attempt)

    def watch_all(self) -> None:
        """No launcher dies here."""

    def told(self, event: str, job: int = 1) -> int:
        """How often the machine has told this of a job."""
        return sum((report["event"], report.get("job")) == (event, job) for report in self.reports)

    def run(
        self,
        *command: bytes,
        job: int = 1,
        after: AttemptId | None = None,
        lease: Lease | None = None,
        limit_s: float | None = None,
        **options: Any,
    ) -> Start:
        where = replace(a_placement("w", boot=self.machine.boot), lease_s=None if lease is None else lease.length_s)
        where = replace(where, time_limit_s=limit_s)
        start = Start(job, 1, replace(a_spec(command=command), **options), where, (PATH,))
        self.machine.start(start, lease, after)
        return start

    async def ended(self, job: int = 1) -> Exited:
        await until(lambda: self.machine.look((job, 1)).exit is not None)
        end = self.machine.look((job, 1)).exit
        assert isinstance(end, Exited)
        return end

    async def collected(self, job: int = 1) -> Exited:
        """Wait for the end and for the files that come back with it."""
        end = await self.ended(job)
        self.gone.clear()
        collected = self.machine.collect((job, 1), end)
        if collected is None:
            await until(lambda: self.gone)
            collected = self.machine.collect((job, 1), end)
        assert collected is not None
        return collected

    async def log(self, job: int = 1) -> bytes:
        return (await self.machine.logs.read(job, 1, "log", 0))[0]

    async def runs(self, job: int = 1) -> None:
        await until(lambda: self.machine.look((job, 1)).command_alive)


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


Test = Callable[[Stage], Awaitable[None]]


@pytest.fixture(params=["local", "fake"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    """Runs a test on a machine of each kind; what it started is gone afterwards."""

    def machine() -> Machine:
        if request.param == "fake":
            return FakeMachine()
        return LocalMachine(str(tmp_path), store="5eed", remote_broker=True, blobs=str(tmp_path / "blobs"))

    return lambda test: asyncio.run(on_stage(machine, tmp_path, test))


async def on_stage(make: Callable[[], Machine], home: Path, test: Test) -> None:
    """Run a test on a machine whose run dirs are below a home, and kill what it left there."""
    machine = make()
    stage = Stage(machine)
    try:
        assert "cpu" in await machine.open(stage) or machine.detects
        async with asyncio.timeout(2 * SOON_S):
            await test(stage)
    finally:
        await machine.close()
        for job, attempt in rundir.attempts(str(home), 100):
            path = rundir.attempt_dir(str(home), job, attempt)
            processes.signal_all(processes.members(None, rundir.marks(path, job, attempt)), signal.SIGKILL)


Play = Callable[[Test], None]


def test_a_command_runs_and_its_end_and_log_are_known(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.run(b"echo", b"one", b"two")
        end = await stage.ended()
        assert (end.outcome, end.code) == (Outcome.EXITED, 0)
        await until(lambda: stage.told("exited"))
        found = stage.machine.look((1, 1))
        assert found.claimed and not found.void and not found.command_alive
        assert await stage.machine.logs.read(1, 1, "log", 0) == (b"one two\n", 8)
        assert await stage.machine.logs.read(1, 1, "log", 4) == (b"two\n", 8)
        assert await stage.machine.logs.tail_offset(1, 1, "log", 1) == 0

    play(test)


def test_an_attempt_that_was_never_started_left_nothing(play: Play) -> None:
    async def test(stage: Stage) -> None:
        assert stage.machine.look((9, 1)) == RunState() and stage.machine.leased((9, 1)) is None
        assert await stage.machine.logs.read(9, 1, "log", 0) == (b"", 0)
        stage.machine.mark((9, 1), ACKED)
        stage.machine.mark((9, 1), UNRECORDED)
        assert stage.machine.inventory(10) == Inventory() and stage.machine.folders() == []

    play(test)


def test_an_order_that_comes_twice_runs_once(play: Play) -> None:
    async def test(stage: Stage) -> None:
        start = stage.run(b"echo", b"once")
        stage.machine.start(start, None)
        await stage.ended()
        stage.machine.start(start, None)
        await until(lambda: stage.told("duplicate"))
        assert await stage.machine.logs.read(1, 1, "log", 0) == (b"once\n", 5)

    play(test)


def test_what_was_given_up_never_starts(play: Play) -> None:
    async def test(stage: Stage) -> None:
        assert stage.machine.void((1, 1))
        assert not stage.machine.void((1, 1))
        stage.run(b"echo", b"late")
        await until(lambda: stage.told("duplicate"))
        found = stage.machine.look((1, 1))
        assert found.void and found.exit is None and not found.command_alive

    play(test)


def test_what_runs_cannot_be_given_up_and_is_stopped(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.run(b"sleep", b"600")
        await stage.runs()
        assert not stage.machine.void((1, 1))
        await stage.machine.remove([1], [])
        assert stage.machine.look((1, 1)).shim_alive, "the folder of what runs stays"
        stage.machine.stop((1, 1), 5.0)
        assert (await stage.ended()).outcome is Outcome.CANCELLED
        await stage.machine.remove([1], [])
        assert stage.machine.look((1, 1)) == RunState()

    play(test)


def test_a_time_limit_is_kept(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.run(b"sleep", b"600", limit_s=0.3)
        assert (await stage.ended()).outcome is Outcome.TIMED_OUT
        assert not stage.machine.look((1, 1)).command_alive

    play(test)


def test_what_runs_is_suspended_goes_on_and_can_be_stopped_all_the_while(play: Play) -> None:
    async def test(stage: Stage) -> None:
        machine = stage.machine
        assert not machine.suspend((9, 1), 1, stop=True), "what never ran cannot be suspended"
        has_shell = machine.takes_files  # the fake has none
        stage.run(*((b"sh", b"-c", b"sleep 600 & sleep 600") if has_shell else (b"sleep", b"600")))
        await stage.runs()
        await until(lambda: machine.suspend((1, 1), 7, stop=True))
        assert machine.look((1, 1)).suspension == (7, True)
        assert not machine.suspend((1, 1), 6, stop=False), "outdated"
        await until(lambda: machine.suspend((1, 1), 7, stop=True))
        await until(lambda: machine.suspend((1, 1), 8, stop=False))
        assert machine.look((1, 1)).suspension == (8, False)
        assert not machine.suspend((1, 1), 7, stop=True), "outdated"
        await until(lambda: machine.suspend((1, 1), 9, stop=True))
        assert machine.look((1, 1)).suspension == (9, True) and machine.look((1, 1)).command_alive
        machine.stop((1, 1), 5.0)
        end = await stage.ended()
        assert (end.outcome, end.signal) == (Outcome.CANCELLED, signal.SIGTERM)
        assert not machine.suspend((1, 1), 10, stop=True), "what has ended cannot be suspended"

    play(test)


def test_a_prefetched_attempt_begins_when_its_predecessor_ends(play: Play) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.follows:
            return
        stage.run(b"sleep", b"600")
        await stage.runs()
        stage.run(b"echo", b"next", job=2, after=(1, 1))
        assert not stage.machine.look((2, 1)).claimed
        stage.machine.stop((1, 1), 5.0)
        assert (await stage.ended(2)).code == 0
        await until(lambda: stage.told("exited", 2))
        assert any(report.get("next") for report in stage.reports if report["event"] == "exited")

    play(test)


def is_about(found: Lease | None, wanted: Lease) -> bool:
    """Tell whether a lease is the wanted one; the clock of another machine may count hundredths of a second."""
    return found is not None and found.length_s == wanted.length_s and abs(found.until - wanted.until) < 0.1


def test_a_lease_is_kept_with_the_attempt(play: Play) -> None:
    async def test(stage: Stage) -> None:
        first, second = (Lease(boottime() + s, 400.0) for s in (300.0, 350.0))
        stage.run(b"sleep", b"600", lease=first)
        await stage.runs()
        assert is_about(stage.machine.leased((1, 1)), first)
        stage.machine.lease((1, 1), second)
        assert is_about(stage.machine.leased((1, 1)), second)

    play(test)


def test_a_watched_attempt_whose_shim_is_gone_is_told(play: Play) -> None:
    async def test(stage: Stage) -> None:
        stage.machine.watch((9, 1))
        assert stage.gone == [], "never inside the call"
        await until(lambda: stage.gone == [(9, 1)])

    play(test)


def test_what_is_held_is_listed_until_it_is_acknowledged(play: Play) -> None:
    async def test(stage: Stage) -> None:
        for job in (1, 2, 3):
            stage.run(b"true", job=job)
            await stage.ended(job)
        stage.machine.mark((2, 1), ACKED)
        stage.machine.mark((1, 1), UNRECORDED)
        machine = stage.machine
        assert machine.inventory(10) == Inventory([(3, 1), (2, 1)], [(3, 1)], [(1, 1)])
        assert machine.inventory(1).held == [(3, 1)]
        assert machine.folders() == [3, 2, 1]

    play(test)


def test_detection_comes_to_look_for_nothing_more(play: Play) -> None:
    async def test(stage: Stage) -> None:
        assert stage.machine.detects
        # It may go on for ever, to measure what others use.
        async for detected in stage.machine.detect():
            if not detected.looked_for:
                return
        raise AssertionError("the last result looks for something")

    play(test)


# Files and environments. The content of what is sent lies in the folder `blobs` of a test.


@contextmanager
def umask_of_a_daemon() -> Iterator[None]:
    """Give the process the umask of a daemon; the umask of the submitter is 022."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def sent(tmp_path: Path, **files: str) -> tuple[SentTree, ...]:
    """A folder with these files, as a job is sent it."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return (SentTree(snapshot(os.fsencode(folder), BlobStore(os.fsencode(tmp_path / "blobs"))).id),)


def test_a_job_runs_in_what_it_was_sent_and_its_files_come_back(play: Play, tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.takes_files:
            return
        back = os.fsencode(tmp_path / "back")
        files: dict[str, Any] = {"send": sent(tmp_path, data="sent\n"), "fetch": (b"out/*",), "fetch_to": back}
        stage.run(b"sh", b"-c", b"cat data; echo changed >data; mkdir out; echo made >out/file", **files)
        end = await stage.collected()
        assert (end.code, end.error, await stage.log()) == (0, None, b"sent\n")
        assert (tmp_path / "back/out/file").read_text() == "made\n"
        modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("back", "back/out", "back/out/file")]
        assert modes == [0o755, 0o755, 0o644]
        stage.run(b"sh", b"-c", b"cat data; exit 3", job=2, **files)
        end = await stage.collected(2)
        assert (end.code, await stage.log(2)) == (3, b"sent\n")
        assert end.error is not None and end.error.startswith("not fetched: ")

    with umask_of_a_daemon():
        play(test)


def test_an_end_is_reported_though_fetching_fails_as_nobody_expects(play: Play, tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.takes_files:
            return
        tree = sent(tmp_path, data="sent\n")
        # No check lets such a path in: it stands for a bug.
        stage.run(b"true", send=tree, fetch=(b"data",), fetch_to=os.fsencode(tmp_path) + b"/nul\0l")
        end = await stage.collected()
        assert end.code == 0 and end.error is not None
        assert end.error.startswith("not fetched: an error in Grass itself: ValueError: ")
        assert "; the files of the job are " in end.error

    play(test)


def test_an_end_whose_files_lie_below_a_path_that_is_no_text_can_be_sent(play: Play, tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.takes_files:
            return
        folder, in_the_way = (os.fsencode(tmp_path) + name for name in (b"/caf\xe9", b"/file\xe9"))
        os.close(os.open(in_the_way, os.O_WRONLY | os.O_CREAT))
        stage.run(b"sh", b"-c", b'mkdir -p "$0" && echo x >"$0/made"', folder)
        assert (await stage.collected()).code == 0
        for job, pattern in ((2, b"not there"), (3, b"made")):
            files: dict[str, Any] = {"fetch": (pattern,), "fetch_to": in_the_way + b"/back"}
            stage.run(b"true", job=job, cwd=folder, own_cwd=True, **files)
            end = await stage.collected(job)
            assert end.error is not None and r"caf\xe9" in end.error
            assert pack(Report(job, end))

    play(test)


def test_a_setup_prepares_an_environment_once_and_its_failure_is_that_of_the_start(play: Play, tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.takes_files:
            return
        line = b"echo prepared; mkdir -p .venv/bin; ln -s /bin/echo .venv/bin/tool; test -e requirements.txt"
        tree = sent(tmp_path, **{"requirements.txt": "one"})
        for job in (1, 2):
            stage.run(b"tool", b"it works", job=job, send=tree, setup=line)
            assert (await stage.collected(job)).code == 0, await stage.log(job)
        assert (await stage.log(1)).endswith(b"prepared\nit works\n")
        assert await stage.log(2) == b"it works\n", "the setup is there already"
        stage.run(b"true", job=3, send=tree, setup=b"echo no network; exit 7")
        end = await stage.collected(3)
        assert (end.outcome, end.code) == (Outcome.SPAWN_FAILED, None)
        assert end.error is not None and end.error.startswith("the setup failed with exit code 7")
        assert b"no network" in await stage.log(3)

    play(test)


def test_a_job_may_begin_with_the_environment_of_a_login_shell(play: Play) -> None:
    async def test(stage: Stage) -> None:
        if not stage.machine.takes_files:
            return
        show = b'echo "$OWN:$GRASS_JOB_ID:$GRASS_WRAPPER:"; command -v cat >/dev/null'
        stage.run(b"sh", b"-c", show, env=((b"OWN", b"it's mine"),), env_from="there")
        assert (await stage.collected()).code == 0, await stage.log()
        assert (await stage.log()).endswith(b"it's mine:1::\n")

    play(test)
