"""Machines over ssh beside the plain tools: `ssh`, `rsync` and GNU parallel, in turns, over the same real sshds.

`python -m bench ssh [PART]... [--rounds N] [--json FILE]`. The machines are the tests' ones: namespaces of this
computer, so a round trip costs almost nothing, and what is seen is the work of both sides on the same cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.homes import clean_environment, own_folder, until
from bench.table import Row, Skipped, document, show
from grassq.sdk import Client

if TYPE_CHECKING:
    from tests.machines.near import Near
    from tests.machines.site import MachineSite, SshMachine

PARTS = ("start", "files", "large", "jobs", "batch")
ROUNDS = 20
#: Rounds of the parts that copy or run much.
FEW = 3
FILES = 10_000
FILE_BYTES = 2_000
LARGE_BYTES = 1 << 30
JOBS = 100
MACHINES = 4
#: Lines of the batch.
BATCH = 4
#: Jobs at a time on each machine.
AT_A_TIME = 4
WAIT_S = 600.0
#: A job that says when its first instruction ran: the clock of the day is the same in every namespace.
NOTE = "date +%s.%N >noted.tmp; mv noted.tmp noted"


class Bench:
    """The machines, a daemon that keeps them connected, and a master for the plain ssh."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        from tests.machines.near import Near
        from tests.machines.site import MachineSite

        self.folder = folder
        self.site: MachineSite = MachineSite(folder)
        stack.callback(self.site.close)
        self.machines: list[SshMachine] = [self.site.machine(f"node{number}") for number in range(MACHINES)]
        self.near: Near = Near(folder, self.site.ssh)
        stack.callback(self.near.close)
        for machine in self.machines:
            self.near.keep(machine.name, machine.name, cpus=AT_A_TIME)
        self.near.begin()
        self.client = stack.enter_context(Client(self.near.home))
        self._control = folder / "control"
        master = [str(self.site.ssh), "-S", str(self._control), "-N", "-o", "ControlMaster=yes", self.node.name]
        self._master = subprocess.Popen(master)
        stack.callback(self._master.wait)
        stack.callback(self._master.terminate)
        until(self._control.exists, "a master of ssh")

    @property
    def node(self) -> SshMachine:
        """The machine of everything that needs only one."""
        return self.machines[0]

    def ssh(self, *words: str) -> list[str]:
        """Return ssh over the warm master, without the host: it needs no network, so it is not in a namespace."""
        return ["ssh", "-F", str(self.site.config), "-o", "BatchMode=yes", "-S", str(self._control), *words]

    def ours(self, script: str, **options: object) -> float:
        """Submit a job to the node; return the seconds until the first instruction after what `script` waits for."""
        began = self._clear()
        job = self.client.submit(["sh", "-c", f"cd; {script}"], worker=self.node.name, **options)  # type: ignore[arg-type]
        noted = self._noted(began)
        job.wait(WAIT_S)
        if job.state != "succeeded":
            raise SystemExit(f"a job ended as {job.info}:\n{job.log()}")
        return noted

    def plain(self, *argv: str) -> float:
        """Run a command that makes the node write its note; return the seconds until then."""
        began = self._clear()
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
        return self._noted(began)

    def _clear(self) -> float:
        (self.node.home / "noted").unlink(missing_ok=True)
        return time.time()

    def _noted(self, began: float) -> float:
        noted = self.node.home / "noted"
        until(noted.exists, "word of a job", WAIT_S)
        return float(noted.read_text()) - began


def turns(count: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Measure the sides in turns, there and back; the first of each is thrown away."""
    found: list[list[float]] = [[] for _ in sides]
    for turn in range(count + 1):
        order = list(zip(sides, found, strict=True))
        for side, times in order if turn % 2 else reversed(order):
            took = side()
            if turn:
                times.append(took)
    return found


def start_rows(bench: Bench, rounds: int) -> list[Row]:
    """A job and a plain command, over a connection that is open."""

    def ours() -> float:
        return bench.ours(NOTE) * 1000

    def ours_ended() -> float:
        began = time.monotonic()
        bench.client.submit(["true"], worker=bench.node.name).wait(WAIT_S)
        return (time.monotonic() - began) * 1000

    def plain() -> float:
        return bench.plain(*bench.ssh(bench.node.name, NOTE)) * 1000

    def plain_ended() -> float:
        began = time.monotonic()
        subprocess.run(bench.ssh(bench.node.name, "true"), check=True, stdin=subprocess.DEVNULL)
        return (time.monotonic() - began) * 1000

    first, first_plain, ended, ended_plain = turns(rounds, ours, plain, ours_ended, plain_ended)
    what = "over a master that is connected"
    return [
        Row(
            "submit to first instruction", "ms", first, first_plain, f"`ssh host date` {what}, to the same instruction"
        ),
        Row("submit to known end", "ms", ended, ended_plain, f"`ssh host true` {what}, to the end of its process"),
    ]


def file_rows(bench: Bench, name: str, tree: Path, rounds: int, change: Callable[[int], None]) -> list[Row]:
    """A tree that is new there, unchanged, and changed in one file."""
    turn = 0

    def ours() -> float:
        return bench.ours(f"cd; {NOTE}", send=[str(tree)])

    def plain() -> float:
        shell = " ".join(bench.ssh())
        argv = ("rsync", "-a", "--delete", "-e", shell, f"{tree}/", f"{bench.node.name}:plain")
        began = time.time()
        subprocess.run(argv, check=True)
        bench.plain(*bench.ssh(bench.node.name, NOTE))
        return time.time() - began

    def fresh() -> None:
        """Make the tree new for both sides."""
        nonlocal turn
        turn += 1
        change(-turn)
        shutil.rmtree(bench.node.home / "plain", ignore_errors=True)

    new: list[list[float]] = [[], []]
    for _ in range(rounds):
        fresh()
        new[0].append(ours())
        new[1].append(plain())
    same = turns(rounds, ours, plain)
    changed: list[list[float]] = [[], []]
    for each in range(rounds):
        change(each)
        changed[0].append(ours())
        changed[1].append(plain())
    against = "`rsync -a` over a master that is connected, and then `ssh host date`"
    return [
        Row(f"{name}, sent first", "s", new[0], new[1], against),
        Row(f"{name}, unchanged", "s", same[0], same[1], against),
        Row(f"{name}, one file changed", "s", changed[0], changed[1], against),
    ]


def small_files(bench: Bench, rounds: int) -> list[Row]:
    """Many small files."""
    tree = bench.folder / "small"
    for number in range(FILES):
        path = tree / f"d{number % 100}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE_BYTES))

    def change(turn: int) -> None:
        for number in range(FILES if turn < 0 else 1):
            (tree / f"d{number % 100}" / f"f{number}").write_bytes(os.urandom(FILE_BYTES))

    return file_rows(bench, f"{FILES:,} files of {FILE_BYTES:,} bytes", tree, rounds, change)


def large_file(bench: Bench, rounds: int, size: int) -> list[Row]:
    """One large file."""
    tree = bench.folder / "large"
    tree.mkdir()

    def change(_turn: int) -> None:
        with (tree / "file").open("wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))

    rows = file_rows(bench, f"one file of {size >> 20:,} MiB", tree, rounds, change)
    # A new file is a changed file: the same is measured twice.
    return rows[:2]


def job_rows(bench: Bench, rounds: int) -> list[Row]:
    """Many short jobs on several machines."""
    from tests.machines.near import LABEL

    at_once = f"{AT_A_TIME}/"

    def ours() -> float:
        began = time.monotonic()
        jobs = bench.client.submit_many([["true"]] * JOBS, labels=[LABEL])
        bench.client.wait(jobs, timeout=WAIT_S)
        return (time.monotonic() - began) * 1000

    def parallel(*words: str) -> float:
        logins = ",".join(at_once + machine.name for machine in bench.machines)
        argv = ["parallel", *words, "--will-cite", "--ssh", str(bench.site.ssh), "-S", logins, "true", ":::"]
        began = time.monotonic()
        env = {**os.environ, "HOME": str(bench.folder)}
        subprocess.run([*argv, *map(str, range(JOBS))], check=True, stdin=subprocess.DEVNULL, env=env)
        return (time.monotonic() - began) * 1000

    found, plain, shared = turns(rounds, ours, parallel, lambda: parallel("--controlmaster"))
    name = f"{JOBS} jobs `true` on {MACHINES} machines, {AT_A_TIME} at a time on each"
    return [
        Row(name, "ms", found, plain, "GNU parallel --sshlogin, a login for each job", JOBS),
        Row(f"{name}, again", "ms", found, shared, "the same with --controlmaster", JOBS),
    ]


def batch_rows(bench: Bench, rounds: int) -> list[Row]:
    """The four trivial jobs of ml-scheduler's README: in a home that has nothing yet, and then again."""
    from tests.compat.batches import Desk

    first: list[float] = []
    again: list[float] = []
    for turn in range(rounds):
        folder = bench.folder / f"desk{turn}"
        folder.mkdir()
        desk = Desk(folder / "home", folder, bench.site)
        try:
            words = ("--machines", desk.yaml("one.yaml", bench.machines[0]), desk.yaml("two.yaml", bench.machines[1]))
            for times in (first, again):
                batch = desk.batch(*["true"] * BATCH, name=f"batch{len(times)}{'a' if times is again else 'f'}.sh")
                began = time.monotonic()
                done = desk.execute(batch, *words, "--memory-required=10", "--no-gpu-required")
                times.append(time.monotonic() - began)
                if done.code:
                    raise SystemExit(f"execute_batch failed: {done}")
        finally:
            desk.close()
    what = f"from the start of `execute_batch` with {BATCH} lines `true` on two machines to its end"
    return [
        Row("execute_batch, first", "s", first, [], f"{what}; it starts the daemon and logs in"),
        Row("execute_batch, again", "s", again, [], f"{what}; the machines are connected"),
    ]


def main(argv: Sequence[str]) -> int:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench ssh", description=__doc__)
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help=f"rounds of each (default: {ROUNDS}, of the large ones {FEW})")
    parser.add_argument("--mib", type=int, default=LARGE_BYTES >> 20, help="the size of the large file")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args(argv)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)}; they are {', '.join(PARTS)}")
    parts = options.parts or PARTS
    load = os.getloadavg()[0]
    rows, skipped = _rows(parts, options.rounds, options.mib << 20)
    print(f"load before {load:.2f}, after {os.getloadavg()[0]:.2f}; ", end="")
    show(rows, skipped)
    if options.json:
        Path(options.json).write_text(json.dumps(document(rows, skipped), indent=2) + "\n")
    return 0


def _rows(parts: Sequence[str], rounds: int | None, size: int) -> tuple[list[Row], list[Skipped]]:
    try:
        from tests.machines.site import missing
    except ImportError as error:
        return [], [Skipped("machines over ssh", f"the tests' machines are not here ({error})")]
    if words := missing():
        return [], [Skipped("machines over ssh", words)]
    rows: list[Row] = []
    skipped: list[Skipped] = []
    with clean_environment(), own_folder() as folder, ExitStack() as stack:
        bench = Bench(folder, stack)
        if "start" in parts:
            rows += start_rows(bench, rounds or ROUNDS)
        if "files" in parts:
            rows += small_files(bench, rounds or FEW)
        if "large" in parts:
            rows += large_file(bench, rounds or FEW, size)
        if "jobs" in parts and not shutil.which("parallel"):
            skipped.append(Skipped("many short jobs", "GNU parallel is not here; bench/needs.sh installs it"))
        elif "jobs" in parts:
            rows += job_rows(bench, rounds or FEW)
        if "batch" in parts:
            rows += batch_rows(bench, rounds or FEW)
    return rows, skipped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
