"""Attempts as real processes: what is written before an order, what is found later, and what goes."""

from __future__ import annotations

import asyncio
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_placement, a_spec
from tests.run.harness import eventually, names_in

from grassq.core.messages import Start
from grassq.core.model import AttemptId, Constraints, Outcome, RemoteSubmitter
from grassq.core.states import Exited, Lost
from grassq.run import processes, rundir
from grassq.run.lease_timer import boottime
from grassq.run.rundir import ACKED, UNRECORDED, Lease
from grassq.worker import local_machine
from grassq.worker.attempts import End
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.local_files import project_links
from grassq.worker.local_machine import LocalMachine
from grassq.worker.machine import Inventory

BOOT = processes.boot_id()
PATH = (b"PATH", b"/usr/local/bin:/usr/bin:/bin")
CANARY = b"canary-5eed"


class Bench:
    """A machine on which nothing is watched: these tests look."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = DefaultEnvironment((PATH, (b"GRASS_CERT_PASS", CANARY)), str(home).encode(), 0o027)
        self.made: list[LocalMachine] = []
        self.machine = self.new_machine()
        self.shim_pool = self.machine.shim_pool

    def new_machine(self, *, remote_broker: bool = True) -> LocalMachine:
        made = LocalMachine(str(self.home), store="5eed", environment=self.environment, remote_broker=remote_broker)
        self.made.append(made)
        return made

    def ended(self, attempt: AttemptId) -> End:
        """Wait until an attempt has left its record."""

        def found() -> End | None:
            if select.select([self.shim_pool], [], [], 0.0)[0]:
                self.shim_pool.read()
            return self.machine.look(attempt).exit

        end: End = eventually(found, "it has ended")
        return end

    def left(self, job: int, attempt: int = 1, **files: bytes) -> Path:
        """A run dir of an earlier life."""
        path = Path(self.machine.path((job, attempt)))
        path.mkdir(parents=True)
        for name, data in files.items():
            (path / name).write_bytes(data)
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path)
    yield found
    for machine in found.made:
        machine.shim_pool.close()
    for job, attempt in rundir.attempts(str(tmp_path), 100):
        path = rundir.attempt_dir(str(tmp_path), job, attempt)
        processes.signal_all(processes.members(None, rundir.marks(path, job, attempt)), signal.SIGKILL)


def a_start(*command: str, job: int = 1, where: dict[str, Any] | None = None, **spec: Any) -> Start:
    asked = replace(a_spec(command=tuple(word.encode() for word in command)), **spec)
    return Start(job, 1, asked, replace(a_placement("w", boot=BOOT), **(where or {})), (PATH,))


# What is there before an order.


def test_the_lease_is_there_before_the_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def order(path: str | bytes, spec: tuple[Any, ...]) -> bool:
        assert isinstance(path, str)
        seen.append(names_in(path))
        return True

    monkeypatch.setattr(bench.shim_pool, "order", order)
    bench.machine.start(a_start("true", where={"lease_s": 80.0}), Lease(boottime() + 60, 80.0))
    bench.machine.start(a_start("true", job=2), None)
    assert seen == [["files", "lease", "spec.json"], ["files", "spec.json"]]


def test_one_that_should_have_followed_is_ordered_without_being_laid_out_again(bench: Bench) -> None:
    bench.shim_pool.start()
    bench.machine.start(a_start("true"), None)
    bench.ended((1, 1))
    prefetched = a_start("sh", "-c", "exit 7", job=2, where={"after": (1, 1)})
    bench.machine.start(prefetched, None, (1, 1))
    spec = Path(bench.machine.path((2, 1))) / "spec.json"
    laid_out = spec.stat().st_ino
    bench.machine.start(replace(prefetched, placement=replace(prefetched.placement, after=None)), None)
    end = bench.ended((2, 1))
    assert isinstance(end, Exited) and end.code == 7
    assert spec.stat().st_ino == laid_out


def test_a_leased_attempt_runs_while_its_lease_is_renewed_and_is_lost_when_it_is_not(bench: Bench) -> None:
    bench.shim_pool.start()
    start = a_start("sleep", "600", where={"lease_s": 4.0})
    first = boottime() + 1.0
    bench.machine.start(start, Lease(first, 4.0))
    eventually(lambda: bench.machine.look((1, 1)).pid, "it runs")
    last = boottime() + 2.0
    bench.machine.lease((1, 1), Lease(last, 4.0))
    assert bench.machine.leased((1, 1)) == Lease(last, 4.0)
    eventually(lambda: boottime() > first + 0.5, "the first lease is over")
    assert bench.machine.look((1, 1)).command_alive
    assert bench.ended((1, 1)) == Lost(
        1, Outcome.LOST, "its lease ended while the broker was out of reach", lease_ended=True
    )
    assert boottime() >= last


def test_an_attempt_without_a_lease_has_none(bench: Bench) -> None:
    bench.left(1)
    assert bench.machine.leased((1, 1)) is None


# What an earlier life left.


def test_the_inventory_is_every_attempt_newest_job_first_and_bounded(bench: Bench) -> None:
    for job, attempt in ((9, 1), (10, 1), (10, 2), (2, 1)):
        bench.left(job, attempt)
    (bench.home / "jobs/10/checkpoint").mkdir()
    (bench.home / "jobs/notes.txt").write_text("mine")
    assert bench.machine.inventory(100).held == [(10, 2), (10, 1), (9, 1), (2, 1)]
    assert bench.machine.inventory(3).held == [(10, 2), (10, 1), (9, 1)]


def test_an_empty_home_holds_nothing(bench: Bench) -> None:
    assert bench.machine.inventory(10) == Inventory()


def test_what_is_acknowledged_is_no_more_in_the_outbox_also_in_the_next_life(bench: Bench) -> None:
    bench.left(1)
    bench.left(2)
    bench.machine.mark((1, 1), ACKED)
    bench.machine.mark((1, 1), ACKED)
    bench.machine.mark((77, 1), ACKED)
    assert bench.new_machine().inventory(10).unacked == [(2, 1)]
    assert not (bench.home / "jobs/77").exists()


def test_a_worker_in_one_process_with_its_broker_neither_lists_nor_marks(bench: Bench) -> None:
    path = bench.left(1)
    direct = bench.new_machine(remote_broker=False)
    direct.mark((1, 1), ACKED)
    assert direct.inventory(10) == Inventory() and list(path.iterdir()) == []


def test_what_a_restored_broker_has_no_record_of_is_told_apart_also_when_its_end_is_acknowledged(bench: Bench) -> None:
    bench.left(1)
    bench.left(2)
    bench.machine.mark((1, 1), UNRECORDED)
    bench.machine.mark((77, 1), UNRECORDED)
    assert not (bench.home / "jobs/77").exists()
    assert bench.new_machine().inventory(10) == Inventory([(2, 1)], [(2, 1)], [(1, 1)])
    bench.machine.mark((1, 1), ACKED)
    assert bench.new_machine().inventory(10) == Inventory([(2, 1)], [(2, 1)], [(1, 1)])


# What was removed.


def test_forgotten_jobs_lose_their_folders_and_spared_ones_keep_their_checkpoint(bench: Bench) -> None:
    for job in (1, 2, 3):
        bench.left(job, 1, log=b"x")
        bench.left(job, 2, log=b"x")
        (bench.home / f"jobs/{job}/checkpoint").mkdir()
    asyncio.run(bench.machine.remove((1, 2, 99), (2,)))
    assert sorted(path.name for path in (bench.home / "jobs").iterdir()) == ["2", "3"]
    assert [path.name for path in (bench.home / "jobs/2").iterdir()] == ["checkpoint"]
    assert len(list((bench.home / "jobs/3").iterdir())) == 3


def test_kept_folders_are_put_aside_and_seen_by_nothing_that_looks_for_jobs(bench: Bench) -> None:
    for job in (1, 2):
        bench.left(job, 1, log=b"x")
        (bench.home / f"jobs/{job}/checkpoint").mkdir()
    for _ in range(2):  # an order may come twice
        assert asyncio.run(bench.machine.remove((1, 2, 99), (2,), keep_logs=True)) == []
    kept = bench.home / "kept"
    assert (kept / "1/1/log").read_bytes() == (kept / "2/1/log").read_bytes() == b"x"
    assert (kept / "1/checkpoint").exists() and not (kept / "2/checkpoint").exists()
    assert [path.name for path in (bench.home / "jobs/2").iterdir()] == ["checkpoint"], "a rerun may use it"
    assert bench.machine.folders() == [2] and bench.new_machine().inventory(10) == Inventory()
    assert asyncio.run(bench.machine.remove((2,), (), keep_logs=True)) == []
    assert (kept / "2/checkpoint").exists() and bench.machine.folders() == []


def test_what_was_kept_of_an_earlier_store_stays_beside_what_is_kept_now(bench: Bench) -> None:
    kept = bench.home / "kept"
    for number, text in enumerate((b"first", b"second", b"third")):
        bench.left(1, 1, log=text)
        project_links.make(str(bench.home), 1, "p", f"lr{number}")
        for _ in range(2):
            assert asyncio.run(bench.machine.remove((1,), (), keep_logs=True)) == []
        place = kept / (f"1.{number}" if number else "1")
        assert (place / "1/log").read_bytes() == text and not (bench.home / "jobs/1").exists()
        assert (bench.home / f"projects/p/lr{number}/1").resolve() == place.resolve()
    assert sorted(path.name for path in kept.iterdir()) == ["1", "1.1", "1.2"]


def test_a_job_of_which_something_is_alive_keeps_its_folder(bench: Bench) -> None:
    bench.shim_pool.start()
    bench.machine.start(a_start("sleep", "600"), None)
    eventually(lambda: bench.machine.look((1, 1)).pid, "it runs")
    asyncio.run(bench.machine.remove((1,), ()))
    assert bench.machine.look((1, 1)).shim_alive
    bench.machine.stop((1, 1), 0.1)
    assert isinstance(bench.ended((1, 1)), Exited)
    asyncio.run(bench.machine.remove((1,), ()))
    assert not (bench.home / "jobs/1").exists()


class NoEvents:
    """A worker that does not listen to its machine."""

    def heard(self, report: dict[str, Any]) -> None: ...

    def shim_gone(self, attempt: AttemptId) -> None: ...

    def watch_all(self) -> None: ...


def test_a_folder_that_could_not_be_removed_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_machine, "UNREMOVED_S", 0.0)
    machine, folder = bench.machine, bench.home / "jobs/1"

    async def until(condition: Callable[[], object]) -> None:
        while not condition():
            machine.check()
            await asyncio.sleep(0.01)

    async def test() -> None:
        await machine.open(NoEvents())
        machine.start(a_start("sleep", "600"), None)
        await until(lambda: machine.look((1, 1)).pid)
        machine.forget((1,), ())
        left = await machine.remove((1,), ())
        assert [(each.job, each.why) for each in left] == [(1, "something of it still runs")] and left[0].bytes > 0
        machine.stop((1, 1), 0.1)
        await until(lambda: not folder.exists())
        await machine.close()

    asyncio.run(asyncio.wait_for(test(), 30))


# Jobs from other machines.

REMOTE: dict[str, Any] = {"constraints": Constraints(remote=RemoteSubmitter()), "cwd": b""}


def test_a_guest_runs_in_the_workers_directory_with_its_umask_and_without_its_secrets(bench: Bench) -> None:
    bench.shim_pool.start()
    bench.machine.start(a_start("sh", "-c", "pwd; umask; env", **REMOTE), None)
    end = bench.ended((1, 1))
    assert isinstance(end, Exited) and end.code == 0
    log = Path(bench.machine.path((1, 1)), "log").read_bytes()
    assert log.startswith(str(bench.home).encode() + b"\n0027\n") and b"GRASS_JOB_ID=1\n" in log
    assert CANARY not in log
    assert not [path for path in (bench.home / "jobs").rglob("*") if path.is_file() and CANARY in path.read_bytes()]


def test_a_directory_that_is_not_on_this_worker_is_refused_in_words(bench: Bench) -> None:
    bench.shim_pool.start()
    bench.machine.start(a_start("true", where={"cwd": b"/no/such/place"}, **REMOTE), None)
    end = bench.ended((1, 1))
    assert isinstance(end, Exited) and end.outcome is Outcome.SPAWN_FAILED
    assert end.error == "cannot start: the working directory /no/such/place does not exist"
