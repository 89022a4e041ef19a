"""The first minutes with several machines: in any order of lines, and with whatever --bind is typed."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.hosts.site import BROKER, Machine, Site, eventually, jobs_of, state_of

from grassq.core.syntax import join_codes

WORKER_LINE = ("daemon", "--no-broker", "--connect", f"{BROKER}:7500")


def _runs_a_job(broker: Machine, site: Site) -> None:
    person = site.person(broker, "ann")
    id_ = person.enqueue("say", "hello")
    person.ok("wait", str(id_))
    assert (jobs_of(person)[0]["worker"], person.log(id_)) == ("node", "hello\n")


def test_after_join_every_command_of_the_machine_works_for_the_broker(site: Site) -> None:
    broker = site.broker()
    worker = site.machine("node")
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    worker.ok("create-queue", "say", "echo")
    broker.until_online("node")
    worker.ok("stop")
    assert "started" in worker.ok("start")
    broker.until_online("node")
    _runs_a_job(broker, site)


def test_the_first_lines_in_the_wrong_order_end_in_a_worker_with_its_queues(site: Site) -> None:
    broker = site.broker()
    worker = site.machine("node")
    assert "grass join" in worker.refuses(5, *WORKER_LINE)
    worker.ok("create-queue", "say", "echo")
    said = worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    assert "say" in said
    broker.until_online("node")
    _runs_a_job(broker, site)


def test_a_machine_with_unfinished_jobs_of_its_own_keeps_them_and_says_what_to_type(site: Site) -> None:
    broker = site.broker()
    worker = site.machine("node")
    id_ = worker.enqueue("sleep", "1000")
    eventually(lambda: state_of(worker, id_) == "running", "it runs")
    said = worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    assert "1 unfinished job" in said and "grass stop" in said and "grass daemon --no-broker" in said
    assert state_of(worker, id_) == "running"
    worker.ok("stop")
    assert "1 unfinished job" in worker.ok("join", broker.code("--scope", "worker"))
    worker.ok("kill", "--grace", "0s", str(id_))


def test_a_worker_that_joins_a_second_broker_works_for_the_first_until_told_otherwise(site: Site) -> None:
    broker = site.broker()
    other = site.machine("broker2")
    other.serve("--bind", "0.0.0.0:7500", "--no-worker")
    worker = site.worker(broker, "node")
    said = worker.ok("join", other.code("--scope", "worker"), "--name", "node")
    assert "works for" in said and "grass stop" in said
    worker.stop()
    worker.ok("start")
    broker.until_online("node")


def test_a_broker_that_joins_another_stays_a_broker(site: Site) -> None:
    broker = site.broker()
    other = site.machine("broker2")
    other.serve("--bind", "0.0.0.0:7500", "--no-worker")
    # The daemon answers before it listens for other machines, and saves its options when it does both.
    other.first_codes()
    other.stop()
    assert "is a broker" in other.ok("join", broker.code("--scope", "worker"), "--name", "node")
    other.ok("start")
    assert "node" not in {worker["name"] for worker in broker.show()["workers"]}
    other.ok("token")


def _listening(machine: Machine) -> set[str]:
    found = subprocess.run([*machine.prefix, "ss", "-Hltn"], capture_output=True, text=True, check=True)
    return {line.split()[3] for line in found.stdout.splitlines()}


@pytest.mark.parametrize("typed", ["*", "[::]", "*:7500", "::"])
def test_every_wildcard_listens_on_both_families_and_is_told_as_addresses_that_work(site: Site, typed: str) -> None:
    broker = site.machine("broker")
    broker.serve("--bind", typed, "--no-worker")
    addresses = {str(each) for each in join_codes.decode(broker.first_codes()[0]).addresses}
    assert addresses == {"1.2.3.4:7500", "[fd12:3::4]:7500"}
    assert re.search(r"broker at 1\.2\.3\.4:7500, \[fd12:3::4\]:7500", broker.said.read_text())
    worker = site.machine("node")
    for address in sorted(addresses):
        assert "no access" in worker.refuses(5, "show", "--broker", address)
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    assert _listening(broker) == {"0.0.0.0:7500", "[::]:7500"}


def test_a_host_name_that_leads_to_this_machine_alone_is_said(site: Site) -> None:
    broker = site.machine("broker")
    broker.host.knows({"grassbox": "127.0.1.1"})
    broker.serve("--bind", "grassbox", "--no-worker")
    said = broker.said.read_text()
    assert "127.0.1.1" in said and "only this machine" in said and "--bind 0.0.0.0" in said
