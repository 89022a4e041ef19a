"""A real daemon, real sshds and bad lines: schedules of faults, and what the ledger says of the jobs.

`python -m tests.machines.fault_run --seeds N` runs many schedules, `--seed N` runs one again.

A lane is one machine of the daemon behind a proxy of its own. Several lanes lead to one sshd, each with a folder of its
own there, so that a round runs one schedule in each lane at the same time. A fault of the daemon or of an sshd is a
fault for all lanes beside it, too.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.world import FINAL, eventually
from tests.machines.ledger import LEDGER, JobPlan, Seen, judge, starts
from tests.machines.near import Near
from tests.machines.proxy import Proxies, Proxy
from tests.machines.schedule import WINDOW_S, Fault, Schedule, schedule
from tests.machines.site import NOISY_BASHRC, MachineSite, SshMachine, missing

from grassq.errors import GrassError
from grassq.sdk.client import Client

#: What went wrong, in sentences, by seed.
Wrong = dict[int, list[str]]

LANES = 20
#: How long everything may take to settle when the last fault is over.
SETTLE_S = 60.0
#: How long the log of a job that has ended may take to be whole, and how often it is read.
LOG_S = 15.0
LOOK_S = 0.2
#: The kinds of sshd that lanes lead to.
MACHINES: dict[str, dict[str, Any]] = {
    "python": {},
    "busybox": {"shell": "busybox", "python": False},
    "fish": {"shell": "fish", "python": False},
    "narrow": {"shell": "tcsh", "python": False, "max_sessions": 2},
    "noisy": {"files": {".bashrc": NOISY_BASHRC}},
}


class Lane(NamedTuple):
    """One machine of the daemon."""

    name: str
    machine: SshMachine
    proxy: Proxy
    folder: str


class Placed(NamedTuple):
    """A job that was submitted."""

    id: int
    plan: JobPlan
    lane: Lane


class FaultRun:
    """One daemon with its lanes, for any number of rounds."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, lanes: int = LANES) -> None:
        """`stack` ends everything; whatever does not leave by itself fails the run."""
        site = MachineSite(folder / "site")
        stack.callback(site.close)
        proxies = Proxies(site.near.space)
        stack.callback(proxies.close)
        self._near = Near(folder, site.ssh, hasty=True)
        stack.callback(self._near.close)
        self._trees = folder / "trees"
        self._lanes = []
        machines = [site.machine(name, **options) for name, options in MACHINES.items()]
        for number in range(lanes):
            machine = machines[number % len(machines)]
            proxy = proxies.proxy(machine.address)
            lane = Lane(f"lane{number}", machine, proxy, f".grass-{number}")
            self._lanes.append(lane)
            self._near.keep(lane.name, machine.name, port=proxy.port, dir=lane.folder)
            site.route(machine, proxy.address, proxy.port)
        self._near.begin()

    # One round.

    def round(self, schedules: Sequence[Schedule]) -> Wrong:
        """Run a schedule in each lane; return what went wrong, by seed."""
        placed: dict[int, list[Placed]] = {}
        with Client(self._near.home) as client:
            for lane, each in zip(self._lanes, schedules, strict=False):
                for fault in each.faults:
                    if not fault.at_s:
                        # Before the jobs: so it meets the copy of their files and their start.
                        self._make(fault, lane)
                placed[each.seed] = [self._submit(client, lane, job) for job in each.jobs]
        self._play(self._moments(schedules, placed))
        self._heal()
        wrong = {}
        for each in schedules:
            if found := self._judge(placed[each.seed]):
                wrong[each.seed] = found
        return wrong

    def _submit(self, client: Client, lane: Lane, job: JobPlan) -> Placed:
        more: dict[str, Any] = {}
        if job.tree:
            tree = self._trees / job.name
            for name, content in job.tree.items():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes(content)
            more["send"] = [str(tree)]
        submitted = client.submit(["sh", "-c", job.script], worker=lane.name, name=job.name, grace_s=1, **more)
        return Placed(submitted.id, job, lane)

    def _moments(
        self, schedules: Sequence[Schedule], placed: dict[int, list[Placed]]
    ) -> Iterator[tuple[float, Lane, Fault | int]]:
        """Yield what happens, in the order of time: faults, the ends of faults, and kills of jobs by their ids."""
        moments: list[tuple[float, Lane, Fault | int]] = []
        for lane, each in zip(self._lanes, schedules, strict=False):
            for fault in each.faults:
                if fault.at_s:
                    moments.append((fault.at_s, lane, fault))
                if fault.kind in ("stall", "slow", "freeze"):
                    moments.append((fault.at_s + fault.lasts_s, lane, fault._replace(lasts_s=0.0)))
            moments += [
                (job.plan.killed_at_s, lane, job.id) for job in placed[each.seed] if job.plan.killed_at_s is not None
            ]
        yield from sorted(moments, key=lambda moment: moment[0])

    def _play(self, moments: Iterator[tuple[float, Lane, Fault | int]]) -> None:
        began = time.monotonic()
        for at_s, lane, what in moments:
            # A moment that is late because others took long comes at once: chance is what this is about.
            time.sleep(max(0.0, min(at_s, WINDOW_S) - (time.monotonic() - began)))
            if isinstance(what, int):
                with Client(self._near.home) as client:
                    client.kill(what)
            else:
                self._make(what, lane)

    def _make(self, fault: Fault, lane: Lane) -> None:
        if fault.kind in ("stall", "slow") and not fault.lasts_s:
            lane.proxy.heal()
        elif fault.kind == "freeze":
            (lane.machine.freeze if fault.lasts_s else lane.machine.thaw)()
        elif fault.kind == "slow":
            lane.proxy.slow(fault.bytes_s)
        elif fault.kind in ("cut", "stall", "swallow"):
            lane.proxy.fault(fault.kind, there=fault.there, back=fault.back, at=fault.at_byte)
        elif fault.kind == "kill sessions":
            lane.machine.kill_sessions()
        elif fault.kind == "kill far":
            self._kill_far(lane)
        elif fault.kind == "kill master":
            self._kill_master(lane)
        elif fault.kind == "kill daemon":
            self._near.kill()
            self._near.serve_again()

    @staticmethod
    def _kill_far(lane: Lane) -> None:
        """Kill what serves the lane there; not the supervisors of jobs."""
        for each in lane.machine.processes():
            line = " ".join(each.argv)
            if f"{lane.folder}/" in line and (" serve" in line or " events" in line or " receive" in line):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)

    def _kill_master(self, lane: Lane) -> None:
        """Kill the ssh process of the lane."""
        for pid in self._near.masters(f"-p {lane.proxy.port} "):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _heal(self) -> None:
        for lane in self._lanes:
            lane.proxy.heal()
            lane.machine.thaw()

    def _judge(self, placed: list[Placed]) -> list[str]:
        """Wait until the jobs of a schedule have ended and can be read, and return what is wrong with them."""
        ids = [str(job.id) for job in placed]

        def ended() -> dict[int, dict[str, Any]]:
            rows = self._near.show(*ids)["jobs"]
            return {row["id"]: row for row in rows} if all(row["state"] in FINAL for row in rows) else {}

        try:
            rows = eventually(ended, "all jobs have ended", SETTLE_S)
        except AssertionError:
            return [self._open(job) for job in placed if self._near.show(str(job.id))["jobs"][0]["state"] not in FINAL]
        wrong: list[str] = []
        for job in placed:
            row, ledger = rows[job.id], job.lane.machine.home / LEDGER
            log = self._log(job)
            seen = Seen(row["state"], row["outcome"], row["exit_code"], row["signal"], row["attempt"], log)
            counted = starts(ledger.read_text().splitlines() if ledger.exists() else ())
            wrong += judge(job.plan, seen, counted[job.id])
        for job in placed:
            try:
                eventually(functools.partial(self._has_left, job), f"processes of {job.plan.name} end", SETTLE_S)
            except AssertionError as error:
                wrong.append(str(error))
        return wrong

    def _open(self, job: Placed) -> str:
        """Say what keeps a job from ending."""
        with self._near.client() as client:
            row, why = client.one_job(str(job.id)), client.get("why", [str(job.id)])
        return f"{job.plan.name} ({job.plan.kind}) has not ended: {row['state']}, attempt {row['attempt']}; {why}"

    def _log(self, job: Placed) -> bytes:
        """Return the log of a job, as soon as it is whole; at last what there is."""
        deadline, found = time.monotonic() + LOG_S, b""
        with self._near.client() as client:
            while time.monotonic() < deadline:
                # While its machine is not connected there is an error, or less.
                with contextlib.suppress(GrassError):
                    found = b"".join(client.log(job.id))
                if found == job.plan.log or job.plan.killed_at_s is not None:
                    break
                time.sleep(LOOK_S)
        return found

    @staticmethod
    def _has_left(job: Placed) -> bool:
        """Whether no process there belongs to a job any more."""
        for each in job.lane.machine.processes():
            with contextlib.suppress(OSError):
                environ = Path("/proc", str(each.pid), "environ").read_bytes().split(b"\0")
                if b"GRASS_JOB_ID=%d" % job.id in environ:
                    return False
        return True


def run(
    folder: Path,
    seeds: Sequence[int],
    lanes: int = LANES,
    tell: Callable[[int, Wrong], None] = lambda done, wrong: None,
) -> Wrong:
    """Run the schedules of seeds; return what went wrong, by seed.

    `tell` is called after each round with the number of schedules that are done, and what went wrong in the round.
    """
    wrong: Wrong = {}
    with contextlib.ExitStack() as stack:
        faults = FaultRun(folder, stack, min(lanes, len(seeds)))
        for at in range(0, len(seeds), lanes):
            found = faults.round([schedule(seed) for seed in seeds[at : at + lanes]])
            tell(min(at + lanes, len(seeds)), found)
            wrong |= found
    return wrong


def main() -> int:
    """Run what was asked; the exit code says whether every promise held."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines.fault_run", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this one")
    which.add_argument("--seeds", type=int, help="run so many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if words := missing():
        parser.error(words)
    seeds = [options.seed] if options.seeds is None else range(options.first, options.first + options.seeds)
    began = time.monotonic()

    def tell(done: int, wrong: Wrong) -> None:
        for seed, sentences in wrong.items():
            sys.stderr.write("".join(f"seed {seed}: {sentence}\n" for sentence in sentences))
            sys.stderr.write(f"run it again:  make ssh-faults SEED={seed}\n")
        sys.stderr.write(f"{done:,} of {len(seeds):,} schedules, {time.monotonic() - began:.0f} s\n")

    with tempfile.TemporaryDirectory(prefix="grass-faults.") as folder:
        wrong = run(Path(folder), seeds, tell=tell)
    sys.stdout.write(f"{len(seeds)} schedules, {time.monotonic() - began:.0f} s: {len(wrong)} failed\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
