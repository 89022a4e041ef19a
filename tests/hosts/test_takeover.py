"""Two brokers on one PostgreSQL: the second takes over when the first dies or stands still; nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres
from tests.hosts.site import Machine, Site, Word, eventually, jobs_of, state_of

#: From the death of one broker until the other answers; the standby waits about 4 s for a word in the database.
TAKEOVER_S = 25.0
ADDRESSES = "broker1:7500,broker2:7500"


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """A database of this test's own, which may be killed."""
    server = postgres.fresh()
    yield server
    server.stop()


class Pair:
    """Two brokers with one certificate and one database, a worker and a person who know both."""

    def __init__(self, site: Site, url: str) -> None:
        self.words: tuple[Word, ...] = (
            "--bind",
            "0.0.0.0:7500",
            "--no-worker",
            "--cert",
            site.folder / "both.pem",
            "--store",
            url,
        )
        self.first, self.second = site.machine("broker1"), site.machine("broker2")
        make = "openssl req -x509 -newkey rsa:2048 -keyout k.pem -out c.pem -days 9 -nodes -subj /O=lab"
        self.first.bash(f"{make} && umask 077 && cat c.pem k.pem > {site.folder / 'both.pem'}")
        self.first.serve(*self.words)
        self.stand_by(self.second)
        self.worker = site.machine("node")
        self.worker.ok("join", self.first.code("--scope", "worker"), "--name", "node")
        self.worker.serve("--no-broker", "--connect", ADDRESSES)
        self.first.until_online("node")
        self.person = site.machine("laptop")
        self.person.ok("login", self.first.code("--scope", "admin", "--name", "ann"))
        self.person.ok("use", ADDRESSES)

    def stand_by(self, broker: Machine) -> None:
        """Start a broker that finds another leading."""
        with broker.said.open("ab") as file:
            broker.daemon = broker.start("daemon", *self.words, stdout=file, stderr=file)
        eventually(lambda: "standing by" in broker.said.read_text(), "it stands by")

    def queue(self) -> Path:
        """A queue whose jobs write down that they ran, and wait for a gate if told to."""
        self.worker.write(
            "job.sh", 'echo $GRASS_JOB_ID >> ran\n[ -z "$1" ] || until [ -e "$1" ]; do sleep 0.05; done\n'
        )
        self.worker.ok("create-queue", "q", "--cpu=4", "sh", "job.sh")
        return self.worker.cwd / "ran"


def _ran_once(ran: Path, ids: list[int]) -> None:
    assert sorted(map(int, ran.read_text().split())) == ids


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_the_second_broker_takes_over_and_every_job_runs_once(site: Site, server: postgres.Server, fault: str) -> None:
    pair = Pair(site, server.database())
    ran = pair.queue()
    ids = [pair.person.enqueue("q", "--cpu=2", "go") for _ in range(4)]
    eventually(lambda: state_of(pair.person, ids[1]) == "running", "two run, two wait")
    waiter = pair.person.start("wait", "all")
    leader = pair.first.daemon_pid()
    if fault == "frozen":
        os.kill(leader, signal.SIGSTOP)
    else:
        pair.first.kill_daemon()
    begun = time.monotonic()
    ids.append(pair.person.enqueue("q"))
    assert time.monotonic() - begun < TAKEOVER_S
    pair.second.until_online("node")
    (pair.worker.cwd / "go").touch()
    pair.person.ok("wait", "all")
    assert waiter.wait(60) == 0, "who waited before the takeover waits on after it"
    _ran_once(ran, ids)
    assert [job["attempt"] for job in jobs_of(pair.person)] == [1] * 5
    if fault == "killed":
        return
    os.kill(leader, signal.SIGCONT)
    eventually(lambda: pair.first.said.read_text().count("standing by") >= 1, "the first one stands by now")
    pair.second.kill_daemon()
    last = pair.person.enqueue("q")
    pair.person.ok("wait", str(last))
    _ran_once(ran, [*ids, last])


def test_a_database_that_is_killed_in_mid_run_loses_nothing(site: Site, server: postgres.Server) -> None:
    pair = Pair(site, server.database())
    ran = pair.queue()
    ids = []
    for n in range(12):
        ids.append(pair.person.enqueue("q"))
        if n % 4 == 2:
            server.kill()
            # A command that is sent meanwhile waits for the database, as for an absent broker, and is carried out once.
            sent = pair.person.start("enqueue", "-q", "q", stdout=subprocess.PIPE)
            listed = pair.person.start("show", stdout=subprocess.DEVNULL)
            server.start()
            ids.append(int(sent.communicate(timeout=60)[0]))
            assert listed.wait(60) == 0
    pair.person.ok("wait", "all")
    stored = [job["id"] for job in jobs_of(pair.person)]
    assert set(ids) <= set(stored)
    eventually(lambda: {job["state"] for job in jobs_of(pair.person)} == {"succeeded"}, "all are done")
    _ran_once(ran, stored)


def test_a_standby_with_another_key_is_refused_unless_told_and_says_so_everywhere(
    site: Site, server: postgres.Server
) -> None:
    pair = Pair(site, server.database())
    third = site.machine("broker3")
    own = ("--bind", "0.0.0.0:7500", "--no-worker", "--store", pair.words[-1])
    refused = third("daemon", *own)
    assert refused.code == 5 and "another key" in refused.err and "--cert" in refused.err
    pair.words = (*own, "--own-key")
    pair.stand_by(third)
    eventually(lambda: "another key" in third.said.read_text(), "it says so")
    assert "stands by" in third.refuses(5, "show")
    checks = json.loads(third("doctor", "--json").out)["checks"]
    assert any(check["status"] == "fail" and "another key" in check["found"] for check in checks)


def test_a_standby_is_told_as_what_it_is_and_can_be_started_and_stopped_in_the_background(
    site: Site, server: postgres.Server
) -> None:
    pair = Pair(site, server.database())
    assert "stands by" in pair.second.refuses(5, "show")
    assert "stands by" in pair.second.ok("doctor")
    pair.second.ok("stop")
    assert "started" in pair.second.ok("start")
    assert "stands by" in pair.second.refuses(5, "show")
    pair.first.kill_daemon()
    eventually(lambda: pair.second("show").code == 0, "the second broker leads", TAKEOVER_S)
    pair.second.until_online("node")
