"""The multi-node half of the README Grass began with, line by line as typed: F26-F31, F72; T39-T42."""

from __future__ import annotations

import subprocess

import pytest
from tests.hosts.site import BROKER, Machine, Site, eventually, state_of

RECIPE = """
openssl req -x509 -newkey rsa:4096 -keyout myKey.pem -out cert.pem -days 365 -nodes
openssl pkcs12 -export -out keyStore.p12 -inkey myKey.pem -in cert.pem

"""
BROKER_LINE = "daemon --bind 0.0.0.0:7500 --no-worker --cert my_cert.p12"
WORKER_LINE = "daemon --no-broker --connect my.server.com:7500"
QUEUES = """
grass create-queue --capacity "{gpu:4}" cifar100 python train.py
grass create-queue --capacity "{printer:1}" print lpr
"""
CLI = """
grass enqueue --broker 1.2.3.4:7500 --require "{printer:1}" print paper.pdf
grass enqueue --broker 1.2.3.4:7500 --require "{gpu:1}" cifar100 --lr=0.01
grass show --broker 1.2.3.4:7500
"""


def _a_broker(site: Site) -> Machine:
    broker = site.machine("broker")
    broker.answering(RECIPE)
    # The page makes keyStore.p12 and then uses my_cert.p12: any name will do.
    (broker.cwd / "keyStore.p12").rename(broker.cwd / "my_cert.p12")
    broker.serve(*BROKER_LINE.removeprefix("daemon ").split())
    return broker


def _a_worker(site: Site, broker: Machine, name: str) -> Machine:
    worker = site.machine(name)
    worker.ok("join", broker.code("--scope", "worker"), "--name", name)
    worker.serve(*WORKER_LINE.removeprefix("daemon ").split())
    worker.write("train.py", "import os, sys; print(sys.argv[1:], os.environ['CUDA_VISIBLE_DEVICES'])\n")
    worker.write("paper.pdf", "a paper\n")
    return worker


def test_the_readme_runs_word_for_word(site: Site) -> None:
    broker = _a_broker(site)
    worker = site.machine("node")
    worker.ok("join", broker.first_codes()[0], "--name", "node")
    worker.write("lpr", "#!/bin/sh\ncat $1; echo printed in $PWD\n", 0o755)
    worker.env["PATH"] = f"{worker.cwd}:{worker.env['PATH']}"
    worker.write("train.py", "import os, sys; print(sys.argv[1:], os.environ['CUDA_VISIBLE_DEVICES'])\n")
    worker.write("paper.pdf", "a paper\n")
    worker.serve(*WORKER_LINE.removeprefix("daemon ").split())
    worker.bash(QUEUES)
    person = site.machine("laptop")
    person.ok("login", broker.code("--name", "ann"))
    said = person.bash(CLI)
    assert said.code == 0, said
    assert "job 1 queued in print" in said.out and "job 2 queued in cifar100" in said.out
    assert "node" in said.out
    person.ok("wait", "--broker", "1.2.3.4:7500", "all")
    assert person.ok("log", "--broker", "1.2.3.4:7500", "1") == f"a paper\nprinted in {worker.cwd}\n"
    assert person.ok("log", "--broker", "1.2.3.4:7500", "2") == "['--lr=0.01'] 0\n"


def test_without_a_code_each_of_the_lines_says_what_to_run(site: Site) -> None:
    _a_broker(site)
    worker = site.machine("node")
    assert "grass join" in worker.refuses(5, *WORKER_LINE.split())
    person = site.machine("laptop")
    for words in (["show"], ["enqueue", "print", "paper.pdf"]):
        assert "grass login" in person.refuses(5, words[0], "--broker", "1.2.3.4:7500", *words[1:])


def test_two_workers_with_one_queue_run_two_jobs_at_once_and_show_names_each(site: Site) -> None:
    broker = _a_broker(site)
    workers = [_a_worker(site, broker, name) for name in ("node1", "node2")]
    for worker in workers:
        worker.write("hold.sh", "until [ -e go ]; do sleep 0.05; done\n")
        worker.ok("create-queue", "q", "--gpu=1", "sh", "hold.sh")
    person = site.person(broker, "ann")
    ids = [person.enqueue("q", "--gpu=1") for _ in range(3)]
    eventually(lambda: [state_of(person, id_) for id_ in ids] == ["running", "running", "queued"], "two run")
    shown = person.ok("show")
    assert "node1" in shown and "node2" in shown
    for worker in workers:
        worker.write("go", "")
    person.ok("wait", "all")


@pytest.mark.parametrize("where", [f"{BROKER}:7500", "1.2.3.4", "[fd12:3::4]:7500", "fd12:3::4"])
def test_a_broker_is_found_by_name_and_by_either_kind_of_address(site: Site, where: str) -> None:
    broker = site.machine("broker")
    broker.serve("--bind", "[::]:7500,0.0.0.0:7500", "--no-worker")
    worker = site.machine("node")
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    worker.serve("--no-broker", "--connect", where)
    broker.until_online("node")
    person = site.machine("laptop")
    person.ok("login", broker.code("--name", "ann"))
    assert "node" in person.ok("show", "--broker", where)


PLAIN = """
import socket
with socket.create_connection(("1.2.3.4", 7500), 10) as sock:
    sock.sendall(b"GET /v1/show HTTP/1.1\\r\\nHost: grass\\r\\n\\r\\n")
    try:
        print(sock.recv(99))
    except ConnectionResetError:
        print("reset")
"""


def test_a_plain_connection_gets_nothing(site: Site) -> None:
    broker = _a_broker(site)
    done = broker.program("python3", "-c", PLAIN)
    assert done.out in ("reset\n", "b''\n") or "HTTP" not in done.out


def test_a_worker_listens_on_nothing_and_gets_jobs_through_a_closed_firewall(site: Site) -> None:
    broker = site.broker()
    worker = site.machine("node")
    worker.host.forbid_inbound()
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    worker.serve("--no-broker", "--connect", f"{BROKER}:7500")
    worker.ok("create-queue", "q", "echo")
    person = site.person(broker, "ann")
    id_ = person.enqueue("q", "hello")
    person.ok("wait", str(id_))
    assert person.log(id_) == "hello\n"
    listening = subprocess.run([*worker.prefix, "ss", "-Hltun"], capture_output=True, text=True, check=True)
    assert listening.stdout == ""


def test_a_job_is_taken_from_another_host_by_plain_http_tools_with_a_token_and_not_without(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.ok("create-queue", "q", "echo")
    person = site.person(broker, "ann", "--scope", "submit")
    token = person.brokers()[0]["login"]["token"]
    ask = [
        "curl",
        "-sk",
        "-o",
        "-",
        "-w",
        "%{http_code}",
        "https://1.2.3.4:7500/v1/submit",
        "-H",
        "Content-Type: application/json",
    ]
    body = '{"jobs":[{"command":["hi"],"queue":"q"}],"key":"00000000000000000000000000000007"}'
    without = person.program(*ask, "-d", body)
    assert without.out.endswith("401") and "grass login" in without.out
    with_it = person.program(*ask, "-H", f"Authorization: Bearer {token}", "-d", body)
    assert with_it.out == '{"ids":[1],"warnings":[]}200', with_it
