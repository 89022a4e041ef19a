"""What jobs cost that only run: a daemon with N `sleep` jobs, once everything has settled.

CPU and wakeups are those of nobody asking anything. `python -m bench idle --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.deep import resident, ticks
from bench.homes import own_home, until
from bench.table import machine
from grassq.net.client import ApiClient as Requests
from grassq.sdk import Client

JOBS = 1000
WATCHED_S = 30.0
#: Between the last start and the first look: spare shims have gone by then, and what was stored is on the disk.
SETTLE_S = 20.0
START_S = 300.0
END_S = 120.0


class Processes(NamedTuple):
    """Whoever of Grass runs."""

    daemon: int
    launcher: int
    #: One for each job.
    shims: tuple[int, ...]
    #: Those that wait for a job.
    spare: tuple[int, ...]


class Use(NamedTuple):
    """What processes did so far."""

    ticks: int
    voluntary: int
    forced: int

    @classmethod
    def of(cls, pids: Iterable[int]) -> Use:
        """Of all of these together."""
        total = cls(0, 0, 0)
        for pid in pids:
            computed, (voluntary, forced) = ticks(pid), _switches(pid)
            total = cls(total.ticks + computed, total.voluntary + voluntary, total.forced + forced)
        return total

    def since(self, before: Use, seconds: float) -> dict[str, float]:
        """The part of a core in percent, and switches per second."""
        return {
            "cpu_percent": round((self.ticks - before.ticks) / os.sysconf("SC_CLK_TCK") / seconds * 100, 3),
            "wakeups_per_s": round((self.voluntary - before.voluntary) / seconds, 2),
            "preempted_per_s": round((self.forced - before.forced) / seconds, 2),
        }


def _switches(pid: int) -> tuple[int, int]:
    """Voluntary and forced context switches of all threads of a process: it slept so often, and woke."""
    voluntary = forced = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "voluntary_ctxt_switches":
                voluntary += int(value)
            elif name == "nonvoluntary_ctxt_switches":
                forced += int(value)
    return voluntary, forced


def _pss(pid: int) -> float:
    """KiB of memory, where what n processes share counts an nth for each."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    raise SystemExit(f"process {pid} has no Pss: the figures would mean nothing")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _of_home(home: str) -> set[int]:
    """Launcher and shims of a home, by the words they were started with."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if os.fsencode(home) in words and b"--home" in words:
                    found.add(int(entry.name))
    return found


def _processes(home: str, requests: Requests) -> Processes:
    info = requests.info()
    shims = {_parent(int(job["pid"])) for job in requests.show()["jobs"] if job["state"] == "running"}
    launcher = int(info["launcher"]["pid"])
    spare = _of_home(home) - shims - {launcher}
    return Processes(int(info["pid"]), launcher, tuple(sorted(shims)), tuple(sorted(spare)))


def measure(jobs: int, seconds: float) -> dict[str, object]:
    """All figures."""
    with own_home() as home:
        (Path(home) / "grass.toml").write_text(f'capacity = "{{cpu: {jobs}}}"\n')
        with Client(home) as client, Requests(home) as requests:
            bare = resident(int(requests.info()["pid"]))
            try:
                began = time.monotonic()
                _start(client, requests, jobs)
                took = time.monotonic() - began
                time.sleep(SETTLE_S)
                found = _processes(home, requests)
                return {"jobs": jobs, "start_s": round(took, 2), **_watch(found, seconds, bare)}
            finally:
                _end(home, requests)


def _start(client: Client, requests: Requests, jobs: int) -> None:
    client.submit_many([["sleep", "1000000"]] * jobs, request={"cpu": 1})
    until(lambda: requests.show()["totals"].get("running") == jobs, f"{jobs} running jobs", START_S)


def _watch(found: Processes, seconds: float, bare: int) -> dict[str, object]:
    groups = {"daemon": (found.daemon,), "launcher": (found.launcher,), "shims": (*found.shims, *found.spare)}
    before = {name: Use.of(pids) for name, pids in groups.items()}
    began = time.monotonic()
    time.sleep(seconds)
    # Looking at a thousand shims takes a moment, too; so the daemon is looked at first, both times.
    took = time.monotonic() - began
    use = {name: Use.of(pids).since(before[name], took) for name, pids in groups.items()}
    held = sorted(_pss(pid) for pid in found.shims)
    return {
        "seconds": round(took, 2),
        "use": use,
        "daemon_rss_mib": round(resident(found.daemon) / 2**20, 1),
        "daemon_rss_without_jobs_mib": round(bare / 2**20, 1),
        "daemon_pss_kib": _pss(found.daemon),
        "launcher_pss_kib": _pss(found.launcher),
        "shims": len(found.shims),
        "spare_shims": len(found.spare),
        "shim_pss_kib_median": statistics.median(held),
        "shim_pss_kib_max": held[-1],
        "shims_pss_mib": round(sum(held) / 1024, 1),
    }


def _end(home: str, requests: Requests) -> None:
    """Kill all jobs; those that do not end are ended by the numbers of their processes."""
    jobs = [job for job in requests.show()["jobs"] if job["state"] in ("placed", "running")]
    requests.change("pause")
    if jobs:
        requests.kill([str(job["id"]) for job in jobs], grace_s=0)
    try:
        until(lambda: not requests.show()["totals"].get("running"), "end of the jobs", END_S)
    except SystemExit:
        for pid in {int(job["pid"]) for job in jobs if job["pid"]} | _of_home(home):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench idle", description=__doc__)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"so many run (default {JOBS:,})")
    parser.add_argument("--seconds", metavar="S", type=float, default=WATCHED_S, help="watched for so long")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1 or not arguments.seconds > 0:
        parser.error("--jobs and --seconds are above 0")
    load = os.getloadavg()[0]
    found = measure(arguments.jobs, arguments.seconds)
    about = machine(load_before=load)
    _show(about, found)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": about, **found}, indent=1) + "\n")
    return 0


def _show(about: dict[str, object], found: dict[str, object]) -> None:
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print()
    use = found["use"]
    assert isinstance(use, dict)
    print(f"{'WHO':<10} {'CPU %':>8} {'WAKEUPS/s':>10} {'PREEMPTED/s':>12}")
    for name, each in use.items():
        cells = each["cpu_percent"], each["wakeups_per_s"], each["preempted_per_s"]
        print(f"{name:<10} {cells[0]:>8} {cells[1]:>10} {cells[2]:>12}")
    print()
    for name, value in found.items():
        if name != "use":
            print(f"{name.replace('_', ' '):<30} {value}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
