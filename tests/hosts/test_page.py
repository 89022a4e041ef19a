"""docs/howto/several-machines.md, block by block on hosts of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests import postgres
from tests.docs.blocks import ROOT, Block, sections
from tests.hosts.site import Machine, Site, eventually, jobs_of

PAGE = sections(ROOT / "docs" / "howto" / "several-machines.md")
#: What the page prints for a code.
CODE = re.compile(r"grass1\.\S+")


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """A database of this test's own."""
    server = postgres.fresh()
    yield server
    server.stop()


def _serve(machine: Machine, block: Block) -> None:
    """A block that is one `grass daemon` line, in a terminal of its own."""
    first, second, *words = block.text.split()
    assert (first, second) == ("grass", "daemon"), block
    machine.serve(*words)


def _type(machine: Machine, text: str) -> str:
    done = machine.bash(text)
    assert done.code == 0, (text, done)
    return done.out


def test_every_block_of_the_page_does_what_it_says(site: Site) -> None:
    certificate, renewal, serving, said = PAGE["The broker"]
    broker = site.machine("broker")
    broker.answering(certificate.text)
    _serve(broker, serving)
    code = broker.first_codes()[0]
    printed = re.sub(r" +", " ", CODE.sub("CODE", broker.said.read_text()))
    for line in said.text.splitlines():
        assert re.sub(r" +", " ", CODE.sub("CODE", line)) in printed, (line, printed)

    join, daemon, queues = PAGE["A worker"]
    worker = site.machine("node")
    worker.write("train.py", "import sys; print('lr', sys.argv[1])\n")
    worker.write("paper.pdf", "a paper\n")
    worker.write("lpr", "#!/bin/sh\ncat $1\n", 0o755)
    worker.env["PATH"] = f"{worker.cwd}:{worker.env['PATH']}"
    worker.answering(join.text, code)
    _serve(worker, daemon)
    _type(worker, queues.text)

    [lines] = PAGE["A user"]
    user = site.machine("laptop")
    user.ok("login", broker.code())
    assert "cifar100" in _type(user, lines.text)
    user.ok("use", "my.server.com")
    user.ok("wait", "all")
    assert [user.log(job["id"]) for job in jobs_of(user)] == ["a paper\n", "lr --lr=0.01\n"]
    user.ok("use", "local")
    assert jobs_of(user) == []

    broker.answering(renewal.text)
    broker.stop()
    _serve(broker, serving)
    assert "cifar100" in user.ok("show", "--broker", "1.2.3.4:7500")
    broker.until_online(broker.show()["workers"][0]["name"])


def test_two_brokers_are_started_as_the_page_says(site: Site, server: postgres.Server) -> None:
    install, daemon, worker_line, user_line = PAGE["Two brokers, one database"]
    assert "[postgres]" in install.text
    url = server.database()
    one = site.machine("broker")
    one.host.knows({})
    _serve(one, Block(daemon.kind, re.sub(r"postgresql://\S+", url, daemon.text)))
    worker = site.machine("node")
    both = {"one.server.com": one.host.address, "two.server.com": "1.2.3.99"}
    worker.host.knows(both)
    worker.ok("join", one.code("--scope", "worker"), "--name", "node")
    _serve(worker, worker_line)
    eventually(lambda: one.worker("node").get("online"), "the worker found the one that leads")
    user = site.machine("laptop")
    user.host.knows(both)
    user.ok("login", one.code())
    _type(user, user_line.text)
    assert "node" in user.ok("show")
