"""A worker whose link is cut while its jobs end: how long from the healing until every end is known."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from bench.homes import clean_environment, own_folder, until
from bench.table import Row, Skipped
from grassq.home import Sender

if TYPE_CHECKING:
    from tests.hosts.site import Machine, Site

ROUNDS = 5
LONG_ROUNDS = 5
JOBS = 20
#: Too short for anybody to notice: the connection lives on.
SHORT_S = 5.0
#: How long the link stays cut after both sides have given the connection up, and how much longer in each round: by then
#: the worker tries as seldom as it ever does, and is met at another point of its waiting each time.
LONGER_S = 30.0
STEP_S = 3.7
NAME = "healed link"
SCRIPT = 'until [ -e "$1" ]; do sleep 0.05; done\n'


def rows(part: int) -> tuple[list[Row], list[Skipped]]:
    """The times of some partitions."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
        return [], [Skipped(NAME, "network namespaces need root, iproute2 and nftables")]
    try:
        from tests.hosts.site import Site
    except ImportError as error:
        return [], [Skipped(NAME, f"the tests' network is not here ({error})")]
    with clean_environment(), own_folder() as folder:
        site = Site(folder)
        try:
            return _measured(site, part), []
        finally:
            site.close()


def _measured(site: Site, part: int) -> list[Row]:
    broker = site.broker()
    worker = site.machine("node")
    worker.env["GRASS_CAPACITY"] = f"{{cpu: {JOBS}}}"
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    worker.serve("--no-broker", "--connect", "broker:7500")
    broker.until_online("node")
    worker.write("wait.sh", SCRIPT)
    worker.ok("create-queue", "q", f"--cpu={JOBS}", "sh", "wait.sh")
    short = [_healed(broker, worker, f"short{turn}") for turn in range(max(1, ROUNDS // part))]
    waits = [(LONGER_S + turn * STEP_S) / part for turn in range(max(1, LONG_ROUNDS // part))]
    long = [_healed(broker, worker, f"long{turn}", wait_s) for turn, wait_s in enumerate(waits)]
    what = f"from the healing until {JOBS} ends that happened meanwhile are stored;"
    return [
        Row(f"{NAME}, cut for {SHORT_S:g} s", "s", short, [], f"{what} the connection lived on"),
        Row(
            f"{NAME}, cut for long",
            "s",
            long,
            [],
            f"{what} both sides had given the connection up {waits[0]:g} s before",
        ),
    ]


def _healed(broker: Machine, worker: Machine, gate: str, longer_s: float | None = None) -> float:
    """Cut shortly, or until both sides have given the connection up and then longer; heal, and wait for every end."""
    with broker.client() as client:
        job = {"command": [gate], "queue": "q", "request": {"cpu": 1}}
        ids = client.submit([job] * JOBS, Sender(os.fsencode(worker.cwd), {}, 0o077))["ids"]
        chosen = f"{ids[0]}-{ids[-1]}"
        until(lambda: all(each["state"] == "running" for each in client.show([chosen])["jobs"]), "running jobs")
        ends = len(_ends(worker))
        worker.host.cut()
        cut_at = time.monotonic()
        (worker.cwd / gate).touch()
        until(lambda: len(_ends(worker)) == ends + JOBS, "ended jobs")
        if longer_s is None:
            time.sleep(max(0.0, cut_at + SHORT_S - time.monotonic()))
        else:
            until(lambda: not broker.worker("node")["online"] and not _in_touch(worker), "end of the connection")
            time.sleep(longer_s)
        worker.host.heal()
        began = time.monotonic()
        while not client.wait([chosen], timeout_s=30)["done"]:
            pass
        return time.monotonic() - began


def _ends(worker: Machine) -> list[object]:
    return [*worker.home.glob("brokers/*/jobs/*/1/exit")]


def _in_touch(worker: Machine) -> bool:
    with worker.client() as client:
        return bool(client.info()["broker"]["online"])
