"""`--on-lost requeue`: its supervisor ends the old copy before another starts, whoever is dead or cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.hosts.site import Machine, Site, eventually, jobs_of

LEASE_S = 20.0
#: Appends when it starts and, every moment it lives, when it was last alive.
PROBE = """
import os, sys, time
ledger = open(sys.argv[1], "a", buffering=1)
ledger.write(f"start {os.environ['GRASS_ATTEMPT']} {time.time()}\\n")
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    ledger.write(f"alive {os.environ['GRASS_ATTEMPT']} {time.time()}\\n")
    time.sleep(0.05)
"""


def _times(ledger: Path, attempt: int) -> list[float]:
    lines = (line.split() for line in ledger.read_text().splitlines()) if ledger.exists() else ()
    return [float(at) for _, number, at in lines if number == str(attempt)]


def _site(site: Site) -> tuple[Machine, list[Machine], Machine, Path]:
    broker = site.broker(env={"GRASS_LEASE_S": str(LEASE_S)})
    ledger = site.folder / "ledger"
    workers = [site.worker(broker, name) for name in ("node1", "node2")]
    for worker in workers:
        worker.write("probe.py", PROBE)
        worker.ok("create-queue", "q", "--cpu=1", "python3", worker.cwd / "probe.py", ledger)
    return broker, workers, site.person(broker, "ann"), ledger


@pytest.mark.parametrize("fault", ["cut", "cut and the daemon killed", "frozen"])
def test_the_second_copy_starts_only_when_the_first_is_dead(site: Site, fault: str) -> None:
    _, workers, person, ledger = _site(site)
    id_ = person.enqueue("q", "--on-lost", "requeue", "--grace", "60s")
    eventually(lambda: jobs_of(person, str(id_))[0]["state"] == "running", "it runs")
    first = next(worker for worker in workers if worker.host.name == jobs_of(person)[0]["worker"])
    if fault == "frozen":
        first.program("kill", "-STOP", str(first.daemon_pid()))
    else:
        first.host.cut()
    if "killed" in fault:
        first.kill_daemon()
    eventually(lambda: _times(ledger, 2), "the second attempt starts", 60.0)
    last_of_first, first_of_second = _times(ledger, 1)[-1], _times(ledger, 2)[0]
    assert last_of_first < first_of_second
    again = jobs_of(person)[0]
    assert again["attempt"] == 2 and again["worker"] != first.host.name
    if fault == "frozen":
        first.program("kill", "-CONT", str(first.daemon_pid()))
    first.host.heal()
    count = len(_times(ledger, 1))
    person.ok("kill", "--grace", "0s", str(id_))
    person("wait", str(id_))
    assert len(_times(ledger, 1)) == count, "the first copy has come back to life"
    assert jobs_of(person)[0]["state"] == "cancelled"


def test_a_copy_of_a_workers_home_on_another_machine_starts_nothing_before_the_lease_is_over(site: Site) -> None:
    _, workers, person, ledger = _site(site)
    id_ = person.enqueue("q", "--on-lost", "requeue", "--grace", "60s")
    eventually(lambda: jobs_of(person, str(id_))[0]["state"] == "running", "it runs")
    first = next(worker for worker in workers if worker.host.name == jobs_of(person)[0]["worker"])
    copy = site.machine("copy")
    copy.boots_on_its_own()
    first.host.cut()
    shutil.copytree(first.home, copy.home, ignore=shutil.ignore_patterns("*.sock", "daemon.*"), symlinks=True)
    copy.serve("--no-broker", "--connect", "my.server.com:7500")
    eventually(lambda: _times(ledger, 2), "the second attempt starts", 60.0)
    assert _times(ledger, 1)[-1] < _times(ledger, 2)[0]


def test_a_short_cut_costs_nothing(site: Site) -> None:
    _, workers, person, ledger = _site(site)
    id_ = person.enqueue("q", "--on-lost", "requeue")
    eventually(lambda: jobs_of(person, str(id_))[0]["state"] == "running", "it runs")
    first = next(worker for worker in workers if worker.host.name == jobs_of(person)[0]["worker"])
    first.host.cut()
    count = len(_times(ledger, 1))
    eventually(lambda: len(_times(ledger, 1)) > count + 20, "it ran on for a second")
    first.host.heal()
    # Longer than the lease: had it not been renewed, it would be over.
    seen = _times(ledger, 1)[-1]
    eventually(lambda: _times(ledger, 1)[-1] > seen + 1.5 * LEASE_S, "it runs on", 60.0)
    assert jobs_of(person)[0]["attempt"] == 1
